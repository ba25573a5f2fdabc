"""A training step of about 5 ms with elaunch's thread in the rank, beside the same without, by turns in one run.

Two ranks under elaunch, whose agent reads their pages. Blocks of 0.1 s follow each other as with, without, without,
with: each such four give one ratio, in which the machine's drift cancels out, and what disturbs one of them
disturbs one ratio. The bar is for the median of these ratios; its 95 % interval tells how sure that is. "median step"
compares the blocks' median steps, most of which the thread never meets; "blocks" compares blocks as wholes, so nothing
is hidden. What a loaded machine does not blur is the CPU time: of a block, and of the thread as a share of a core while
it is at work.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report
from processes import ROOT, Processes, wait_for
from report import Bar, Samples

SECONDS = 300.0
RANKS = 2
STEPS = 20  # in a block: 0.1 s, a look of the thread at least
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


def ratios(blocks: Sequence[float]) -> list[float]:
    """For each four neighbours, those with the thread to those without."""
    fours = [blocks[n : n + 4] for n in range(0, len(blocks) - 3, 4)]
    return [(four[0] + four[3]) / (four[1] + four[2]) for four in fours]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of what they were drawn from is, at 95 %: by ranks, whatever the distribution."""
    ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
    low, high = math.floor(len(values) / 2 - half), math.ceil(len(values) / 2 + half)
    return ordered[max(0, low)], ordered[min(len(values) - 1, high)]


def bars(samples: Samples, kind: str, ranks: list[dict[str, Any]]) -> list[Bar]:
    for rank in ranks:
        with_it, without = halves(rank["blocks"])
        samples.setdefault(f"step, {kind}, with", []).extend(itertools.chain(*with_it))
        samples.setdefault(f"step, {kind}, without", []).extend(itertools.chain(*without))
    figures: dict[str, list[list[float]]] = {
        "median step": [[statistics.median(block) for block in rank["blocks"]] for rank in ranks],
        "blocks": [[sum(block) for block in rank["blocks"]] for rank in ranks],
        "CPU time": [rank["cpu"] for rank in ranks],
    }
    found = []
    for name, each in figures.items():
        # The ranks wait for each other, so they are one sample and not two.
        together = [statistics.fmean(pair) for pair in zip(*map(ratios, each), strict=True)]
        low, high = interval(together)
        print(f"{name}, {kind}: {statistics.median(together):.4f}, at 95 % {low:.4f} to {high:.4f}", flush=True)
        samples[f"ratio of {name}, {kind}"] = together
        if name != "CPU time":
            found.append(Bar(f"{name}, {kind}", statistics.median(together), 1.01))
    return [*found, Bar(f"share of a core, {kind}", max(rank["share"] for rank in ranks), 0.01)]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    samples: Samples = {}
    measured = run(80 if options.quick else 600)
    found = [bar for kind, ranks in measured.items() for bar in bars(samples, KINDS[kind], ranks)]
    return report.finish(options.json, seen, samples, {}, found)


if __name__ == "__main__":
    sys.exit(main())
