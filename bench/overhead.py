"""A training step of about 5 ms with elaunch's thread in the rank, beside the same without, by turns in one run.

Two ranks under elaunch, whose agent reads their pages. "median" is that of single steps, most of which the thread never
meets; "blocks" is the median ratio of two neighbouring blocks of steps as wholes, so nothing is hidden. The thread's
CPU time, as a share of a core while it is at work, is what a loaded machine does not blur.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from processes import ROOT, Processes, wait_for
from report import Bar, Samples

SECONDS = 300.0
RANKS = 2
STEPS = 40  # in a block: 0.2 s, four looks of the thread
KINDS = {"ddp": "DDP over gloo", "python": "Python code alone"}
Blocks = list[list[float]]


def run(blocks: int) -> dict[str, list[dict[str, Any]]]:
    """What each rank measured, by kind: its blocks, and the thread's share of a core."""
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-", ignore_cleanup_errors=True) as folder:
        made = Processes(Path(folder) / "run")
        command = [sys.executable, "-m", "elaunch", "--standalone", f"--nproc-per-node={RANKS}"]
        program = [str(ROOT / "bench/training.py"), str(blocks), str(STEPS), str(made.out)]
        try:
            job = made.start([*command, *program])
            paths = [made.out / f"{rank}.json" for rank in range(RANKS)]
            wait_for("the ranks' times", lambda: job.poll() is not None or all(p.exists() for p in paths), SECONDS)
            if job.poll():
                sys.exit(f"the job failed:\n{made.log.read_text(errors='replace')[-3000:]}")
            found = [json.loads(path.read_text()) for path in paths]
        finally:
            made.end()
    return {kind: [rank[kind] for rank in found] for kind in KINDS}


def asleep(block: int) -> bool:
    """As in bench/training.py, which imports torch."""
    return block % 4 in (1, 2)


def halves(blocks: Blocks) -> tuple[Blocks, Blocks]:
    """Those with the thread at work, and each one's neighbour without."""
    return (
        [block for n, block in enumerate(blocks) if not asleep(n)],
        [block for n, block in enumerate(blocks) if asleep(n)],
    )


def bars(samples: Samples, kind: str, ranks: list[dict[str, Any]]) -> list[Bar]:
    on, off = f"step, {kind}, with", f"step, {kind}, without"
    for rank in ranks:
        with_it, without = halves(rank["blocks"])
        samples.setdefault(on, []).extend(itertools.chain(*with_it))
        samples.setdefault(off, []).extend(itertools.chain(*without))
        ratios = [sum(a) / sum(b) for a, b in zip(with_it, without, strict=True)]
        samples.setdefault(f"ratio of blocks, {kind}", []).extend(ratios)
    return [
        Bar(f"median step, {kind}", report.ratio(samples, on, off), 1.01),
        Bar(f"blocks, {kind}", report.median(samples, f"ratio of blocks, {kind}"), 1.01),
        Bar(f"share of a core, {kind}", max(rank["share"] for rank in ranks), 0.01),
    ]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    samples: Samples = {}
    measured = run(40 if options.quick else 200)
    found = [bar for kind, ranks in measured.items() for bar in bars(samples, KINDS[kind], ranks)]
    return report.finish(options.json, seen, samples, {}, found)


if __name__ == "__main__":
    sys.exit(main())
