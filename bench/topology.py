"""Discovery of a server with 16 devices and 40 ports, beside plain reading of the same files, by turns in one run.

The server is a generated sysfs tree in a temporary folder, so a driver's own time to answer is not in it: a file of
this host's real sysfs is timed too, for what the same number of them would take. NVML is not asked.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import report
from processes import ROOT
from report import Bar, Samples

sys.path.append(str(ROOT))

from elaunch.topology.host import tree
from elaunch.topology.host.discovery import discover
from tests.unit.topology.sysfs_tree import switched, write_machine

DEVICES, PORTS = 16, 40
BAR = 0.050
ATTRIBUTES = ("class", "vendor", "device", "numa_node", "uevent")


def timed(samples: Samples, name: str, call: Callable[[], object]) -> None:
    started = time.perf_counter()
    call()
    samples.setdefault(name, []).append(time.perf_counter() - started)


def files_read(root: Path) -> list[str]:
    """Those that a discovery opens."""
    found: list[str] = []
    real = os.open

    def opened(path: str, flags: int) -> int:
        found.append(path)
        return real(path, flags)

    with mock.patch.object(tree.os, "open", opened):
        topology = discover(root)
    if (len(topology.devices), len(topology.ports)) != (DEVICES, PORTS):
        sys.exit(f"found {len(topology.devices)} devices and {len(topology.ports)} ports")
    return [path for path in found if os.path.exists(path)]


def read_plainly(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            file.read()


def sysfs_files() -> list[str]:
    """Attributes of this host's own PCI functions."""
    folders = [entry.path for entry in os.scandir("/sys/bus/pci/devices")] if os.path.exists("/sys/bus/pci") else []
    return [path for folder in folders for name in ATTRIBUTES if os.path.exists(path := f"{folder}/{name}")]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-") as folder:
        root = write_machine(Path(folder), *switched(DEVICES, PORTS))
        paths, own = files_read(root), sysfs_files()
        for _ in range(20 if options.quick else 200):
            timed(samples, "discovery", lambda: discover(root))
            timed(samples, f"plain reading of its {len(paths)} files", lambda: read_plainly(paths))
            timed(samples, f"plain reading of {len(own)} files of this sysfs", lambda: read_plainly(own))
        timed(samples, "discovery of this host", lambda: discover(nvml=False))
    peer, real = (statistics.median(samples[name]) for name in list(samples)[1:3])
    ratio = statistics.median(samples["discovery"]) / peer
    print(f"discovery takes {ratio:.2f} times as long as plain reading of the same {len(paths)} files")
    if own:
        print(
            f"a file takes {peer / len(paths) * 1e6:.1f} us in the tree, {real / len(own) * 1e6:.1f} us in this sysfs"
        )
    name = f"discovery of {DEVICES} devices and {PORTS} ports, s"
    return report.finish(options.json, seen, samples, {}, [Bar(name, report.median(samples, "discovery"), BAR)])


if __name__ == "__main__":
    sys.exit(main())
