"""The job with the cells that need torch: one start of the ranks for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.qualify.cells import Cell, Result
from elaunch.qualify.lines import Line, starts
from elaunch.qualify.running import PRELOAD, Runner
from elaunch.qualify.verdicts import results

PROGRAM = ("-m", "elaunch.qualify.programs.torch_cells")
PATIENCE = {"quick": 240.0, "full": 1800.0}  # seconds


def run(
    runner: Runner, mode: str, cells: Sequence[Cell], only: Sequence[str], spoil: str
) -> tuple[list[Result], list[Line]]:
    """The results of its cells, and all that its ranks told."""
    job = runner.start("torch", PRELOAD, *PROGRAM, mode, spoil, *only, OMP_NUM_THREADS="1")
    ending = ""
    try:
        if code := job.wait(PATIENCE[mode]):
            ending = f"the job ended with {code}: {job.last()}"
    except TimeoutError as error:
        ending = str(error)
        job.end()
    lines = [*job.lines(), *starts(job.output())]
    return results(cells, lines, runner.where.world, ending), lines
