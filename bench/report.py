"""What the benchmarks have in common: options, the machine, a table of samples, the bars, the JSON file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Bar:
    """A measured value that should be at most ``bar``; without a value it falls short."""

    name: str
    value: float | None
    bar: float

    @property
    def holds(self) -> bool:
        return self.value is not None and self.value <= self.bar

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:.3f}"
        return f"{self.name:52} {value:>8}  {self.bar:>6g}  {'holds' if self.holds else 'falls short'}"


def parser(description: str, quick: str = "fewer sizes and repetitions") -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write bars and samples there")
    made.add_argument("--quick", action="store_true", help=quick)
    return made


def options(description: str) -> argparse.Namespace:
    return parser(description).parse_args()


def machine() -> dict[str, object]:
    """The machine, its load now, and the releases of what is compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    etcd = shutil.which("etcd")
    told = subprocess.run([etcd, "--version"], capture_output=True, text=True, check=False).stdout if etcd else ""
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "grpcio": metadata.version("grpcio"),
        "etcd": told.splitlines()[0].removeprefix("etcd Version: ") if told else "packaged",
    }


def median(samples: Samples, name: str) -> float | None:
    return statistics.median(samples[name]) if samples.get(name) else None


def ratio(samples: Samples, name: str, peer: str) -> float | None:
    """The ratio of the medians; None where one of the two was never measured."""
    above, below = median(samples, name), median(samples, peer)
    return above / below if above is not None and below else None


def table(samples: Samples, failed: Mapping[str, int]) -> None:
    print(f"\n{'seconds':52} {'median':>8} {'min':>8} {'max':>8}   n  failed")
    for name in sorted({*samples, *failed}):
        values = samples.get(name, [])
        shown = [statistics.median(values), min(values), max(values)] if values else []
        figures = " ".join(f"{value:8.3f}" for value in shown) or " ".join(["       -"] * 3)
        print(f"{name:52} {figures} {len(values):3} {failed.get(name, 0):7}")


def finish(
    path: Path | None,
    seen: Mapping[str, object],
    samples: Samples,
    failed: Mapping[str, int],
    bars: Sequence[Bar],
) -> int:
    """Print the table and the bars, write the file; the exit code."""
    table(samples, failed)
    print(f"\n{'bar':52} {'value':>8}  {'bar':>6}")
    for bar in bars:
        print(bar)
    if path:
        rows = [{**asdict(bar), "holds": bar.holds} for bar in bars]
        after = [round(load, 2) for load in os.getloadavg()]
        content = {
            "bars": rows,
            "samples": samples,
            "failed": failed,
            "machine": {**seen, "load_after": after},
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if all(bar.holds for bar in bars) else 1
