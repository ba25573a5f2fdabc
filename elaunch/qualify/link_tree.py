"""Trees that stand for sysfs on the hosts of a laboratory: ports in them go down without harm to anybody."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import PortState

ROOT = "ELAUNCH_SYSFS_ROOT"
NICS = ("mlx5_0", "mlx5_1")
_CLASS = "sys/class/infiniband"
_UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
_COUNTERS = ("link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors", "port_xmit_data", "port_rcv_data")


def made(into: Path, environ: Mapping[str, str]) -> Path:
    """A tree below ``into``: a copy of the user's, or one with two InfiniBand ports. Raises OSError."""
    theirs = Path(environ[ROOT]).resolve() if environ.get(ROOT) else None
    shutil.rmtree(into, ignore_errors=True)
    if theirs is None or not (theirs / _CLASS).is_dir() or theirs == Path("/"):
        return _built(into)
    for part in ("sys", "proc"):
        if (theirs / part).is_dir():
            shutil.copytree(theirs / part, into / part, symlinks=True)
    return into


def ports(root: Path) -> list[str]:
    """Those in a tree that are up, and whose files say so."""
    found = [port.id for port in discover(root, nvml=False).ports if port.state is PortState.ACTIVE]
    return [name for name in found if _state(root, name).is_file()]


def _state(root: Path, port: str) -> Path:
    nic, _, number = port.partition(":")
    return root / _CLASS / nic / "ports" / (number or "1") / "state"


def _built(root: Path) -> Path:
    """What ``elaunch.topology`` reads of a port, and nothing else."""
    for nic in NICS:
        port = root / _CLASS / nic / "ports" / "1"
        (port / "counters").mkdir(parents=True)
        for name, text in _UP.items():
            (port / name).write_text(f"{text}\n")
        for name in _COUNTERS:
            (port / "counters" / name).write_text("0\n")
    return root
