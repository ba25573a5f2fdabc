"""Saves and restores of a sharded state, beside stock DCP, one memcpy and dd, by turns in one run.

2 and 4 ranks; each restores what it saved itself and what the other number of ranks saved. Files are taken out of the
page cache before each restore, but for "from memory". "copies" is the memory that the first save takes, as a multiple
of the state.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import report
from processes import ROOT, Processes, wait_for
from report import Bar, Samples

SECONDS = 1500.0


def measure(folder: Path, world: int, size: int, repetitions: int, other: int | None) -> Samples:
    """What so many ranks measured, each name with their number."""
    made = Processes(folder / f"run-{world}-{other}")
    arguments = [str(folder), str(size), str(repetitions), str(other or "-")]
    command = [sys.executable, "-m", "elaunch", "--standalone", f"--nproc-per-node={world}", "--max-restarts=0"]
    try:
        job = made.start([*command, str(ROOT / "bench/saving.py"), *arguments])
        wait_for(f"{world} ranks' figures", lambda: job.poll() is not None, SECONDS)
        if job.poll():
            sys.exit(f"the job failed:\n{made.log.read_text(errors='replace')[-3000:]}")
    finally:
        made.end()
    return {
        f"{name}, {world} ranks": values for name, values in json.loads((folder / f"{world}.json").read_text()).items()
    }


def bars(samples: Samples, world: int, other: int) -> list[Bar]:
    def ratio(name: str, peer: str) -> float | None:
        return report.ratio(samples, f"{name}, {world} ranks", f"{peer}, {world} ranks")

    across = f"restore {other} to"
    return [
        Bar(f"blocked / memcpy, {world} ranks", ratio("save, blocked", "memcpy"), 1.3),
        Bar(f"blocked / stock, {world} ranks", ratio("save, blocked", "stock save, blocked"), 1),
        Bar(f"save / dd with fsync, {world} ranks", ratio("save, to the end", "dd, writing"), 1.15),
        Bar(f"restore / dd, {world} ranks", ratio("restore", "dd, reading, restore"), 1.3),
        Bar(f"{across} {world} / dd", ratio(across, f"dd, reading, {across}"), 1.3),
        Bar(f"{across} {world} / stock", ratio(across, f"stock {across}"), 0.5),
        Bar(
            f"{across} {world} / stock, from memory",
            ratio(f"{across}, from memory", f"stock {across}, from memory"),
            0.5,
        ),
        Bar(f"copies in memory, {world} ranks", report.median(samples, f"copies, {world} ranks"), 1),
    ]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    size, repetitions = (512 << 20, 3) if options.quick else (2 << 30, 7)
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-", dir=ROOT / "bench", ignore_cleanup_errors=True) as folder:
        measure(Path(folder), 2, size, 1, None)
        samples |= measure(Path(folder), 4, size, repetitions, 2)
        samples |= measure(Path(folder), 2, size, repetitions, 4)
    return report.finish(options.json, seen, samples, {}, [*bars(samples, 2, 4), *bars(samples, 4, 2)])


if __name__ == "__main__":
    sys.exit(main())
