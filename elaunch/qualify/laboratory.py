"""The cells that take a laboratory: faults of all that is not a rank, and rails. One laboratory for all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from elaunch.lab import Lab, NoGroundError, impossible
from elaunch.qualify import lab_faulting, railing
from elaunch.qualify.cells import Cell, Job, Result, not_run


def run(
    cells: Sequence[Cell],
    mode: str,
    hosts: bool,
    logs: Path,
    environ: Mapping[str, str],
    spoil: str,
    tell: Callable[[str], None],
    carried: Callable[[dict[str, Any]], None],
) -> Iterator[Result]:
    """Their results. With ``hosts`` the qualification is of others' machines, of which nothing is cut or killed.

    ``carried`` hears what went over each rail, as rows of the report's ports.
    """
    faults, rails = ([cell for cell in cells if cell.job is job] for job in (Job.LAB, Job.RAILS))
    if why := _impossible(mode):
        yield from (not_run(cell, f"cannot run here: {why}") for cell in cells)
        return
    if hosts:
        yield from (not_run(cell, _not_there(cell)) for cell in faults)
        faults = []
    left = [*faults, *rails]
    if not left:
        return
    try:
        with Lab(hosts=2) as lab:
            try:
                for result in _results(lab, faults, rails, environ, spoil, tell, carried):
                    left = [cell for cell in left if cell.name != result.name]
                    yield result
            finally:
                controllers = [f"--- {one.host}\n{one.log.read_text(errors='replace')}" for one in lab.controllers]
                (logs / "lab.log").write_text("\n".join([lab.outputs(), *controllers]))
    except (NoGroundError, OSError, TimeoutError, subprocess.SubprocessError) as error:
        yield from (not_run(cell, f"cannot run here: the laboratory: {error}") for cell in left)


def _impossible(mode: str) -> str:
    return "it takes a laboratory, which --full makes" if mode == "quick" else impossible()


def _not_there(cell: Cell) -> str:
    """Why it is not run on other people's hosts."""
    if cell.fault is not None and cell.fault.what.target == "node":
        return "elaunch ssh starts no agent again: --local has a laboratory for it"
    return "nothing of other people's hosts is cut or killed: --local has a laboratory for it"


def _results(
    lab: Lab,
    faults: Sequence[Cell],
    rails: Sequence[Cell],
    environ: Mapping[str, str],
    spoil: str,
    tell: Callable[[str], None],
    carried: Callable[[dict[str, Any]], None],
) -> Iterator[Result]:
    if faults:
        yield from lab_faulting.run(lab, faults, environ, spoil, tell)
    if rails:
        yield from railing.run(lab, rails, spoil, tell, carried)
