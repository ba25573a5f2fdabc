"""A training step of about 5 ms with elaunch's thread in the rank, beside the same without, by turns in one run.

Two ranks under elaunch, whose agent reads their pages. "median" is that of single steps, most of which the thread never
meets; "blocks" is the median ratio of two neighbouring blocks of steps as wholes, so nothing is hidden.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import report
from processes import ROOT, Processes, wait_for
from report import Bar, Samples

SECONDS = 300.0
RANKS = 2
STEPS = 40  # in a block: 0.2 s, four looks of the thread
KINDS = {"ddp": "DDP over gloo", "python": "Python code alone"}
Blocks = list[list[float]]


def run(blocks: int) -> dict[str, list[Blocks]]:
    """The blocks of each rank, by kind."""
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-", ignore_cleanup_errors=True) as folder:
        made = Processes(Path(folder) / "run")
        command = [sys.executable, "-m", "elaunch", "--standalone", f"--nproc-per-node={RANKS}"]
        program = [str(ROOT / "bench/training.py"), str(blocks), str(STEPS), str(made.out)]
        try:
            made.start([*command, *program])
            paths = [made.out / f"{rank}.json" for rank in range(RANKS)]
            wait_for("the ranks' times", lambda: all(path.exists() for path in paths), SECONDS)
            found = [json.loads(path.read_text()) for path in paths]
        finally:
            made.end()
    return {kind: [rank[kind] for rank in found] for kind in KINDS}


def ratios(ranks: list[Blocks]) -> list[float]:
    """With the thread to without, of neighbouring blocks."""
    return [sum(b[n]) / sum(b[n + 1]) for b in ranks for n in range(0, len(b) - 1, 2)]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    samples: Samples = {}
    bars: list[Bar] = []
    for kind, ranks in run(40 if options.quick else 200).items():
        on, off = f"step, {KINDS[kind]}, with", f"step, {KINDS[kind]}, without"
        samples[on] = [seconds for blocks in ranks for block in blocks[::2] for seconds in block]
        samples[off] = [seconds for blocks in ranks for block in blocks[1::2] for seconds in block]
        samples[f"ratio of blocks, {KINDS[kind]}"] = ratios(ranks)
        bars.append(Bar(f"median step, {KINDS[kind]}", report.ratio(samples, on, off), 1.01))
        bars.append(Bar(f"blocks, {KINDS[kind]}", statistics.median(ratios(ranks)), 1.01))
    return report.finish(options.json, seen, samples, {}, bars)


if __name__ == "__main__":
    sys.exit(main())
