"""The cells about launches: jobs without torch, of a second or two each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from elaunch.errors import JoinTimeoutError
from elaunch.qualify.cells import Cell, Result, failed, not_run, passed
from elaunch.qualify.lines import Line, of
from elaunch.qualify.running import EndedError, Runner

PROGRAM = ("-m", "elaunch.qualify.programs.launched")
_PATIENCE = 60.0  # seconds
_CODE = 7


def run(runner: Runner, cell: Cell, spoiled: bool) -> Result:
    """Run one of them. A job that does not do what it should, or not in time, is a failed cell, and is ended."""
    before = len(runner.jobs)
    try:
        wrong = _HOW[cell.name](runner, spoiled)
    except (EndedError, TimeoutError) as error:
        return failed(cell, str(error))
    finally:
        for job in runner.jobs[before:]:
            job.end()
    if wrong.startswith("not here: "):
        return not_run(cell, wrong.removeprefix("not here: "))
    return failed(cell, wrong) if wrong else passed(cell)


def reach(runner: Runner) -> None:
    """Have a rank on each host begin and end. Raises JoinTimeoutError, with why, where one is not there.

    What else may be wrong is for the cells to find.
    """
    job = runner.start("reach", "--start=exec", *PROGRAM, "exit", "0")
    try:
        with suppress(TimeoutError):
            if job.wait(_PATIENCE) == JoinTimeoutError.exit_code:
                raise JoinTimeoutError(job.last().removeprefix("elaunch: error: "))
    finally:
        job.end()


def _fixed(runner: Runner, spoiled: bool) -> str:
    where = runner.where
    job = runner.start("fixed", "--start=exec", *PROGRAM, "exit" if spoiled else "wait", str(_CODE if spoiled else 0))
    code = job.wait(_PATIENCE)
    told = of(job.lines(), "launched")
    if code:
        return f"the job ended with {code}: {job.last()}"
    ranks = sorted(one["rank"] for one in told)
    if ranks != list(range(where.world)):
        return f"ranks {ranks} started, expected 0 to {where.world - 1}"
    if any(one["world"] != where.world for one in told):
        return f"a rank was told of a world of another size than {where.world}"
    per_host = {one["host"]: 0 for one in told}
    for one in told:
        per_host[one["host"]] += 1
    return "" if set(per_host.values()) == {where.ranks} else f"ranks per host: {per_host}"


def _elastic(runner: Runner, spoiled: bool) -> str:
    """A second agent comes while the first one's ranks work."""
    if runner.where.hosts:
        return "not here: agents of --hosts start together; the cell is run by --local"
    world = 2 * runner.where.ranks
    options = ("--start=exec", "--rdzv-conf=last_call_timeout=0.5")
    words = (*options, *PROGRAM, "wait", str(world))
    job = runner.start("elastic", *words, nodes="1:2")
    job.until("the first agent's ranks", lambda lines: _all(lines, runner.where.ranks), _PATIENCE)
    if not spoiled:
        runner.join(job, *words, nodes="1:2")
    job.until("a world of both agents' ranks", lambda lines: _all(lines, world), 5.0 if spoiled else _PATIENCE)
    code, other = job.wait(_PATIENCE), job.more[0].wait(_PATIENCE)
    return f"the agents ended with {code} and {other}: {job.last()}" if code or other else ""


def _restart(runner: Runner, spoiled: bool) -> str:
    options = ("--start=exec", f"--max-restarts={0 if spoiled else 1}")
    job = runner.start("restart", *options, *PROGRAM, "exit", str(_CODE), "1")
    code = job.wait(_PATIENCE)
    again = of(job.lines(), "launched", generation=2)
    if code:
        return f"the job ended with {code}: {job.last()}"
    if len(again) != runner.where.world:
        return f"{len(again)} ranks started again, expected {runner.where.world}"
    text = job.output()
    return "" if f"exited with code {_CODE}" in text else f"nowhere is it told that a rank exited with code {_CODE}"


def _budget(runner: Runner, spoiled: bool) -> str:
    job = runner.start("budget", "--start=exec", *PROGRAM, "exit", str(0 if spoiled else _CODE))
    code = job.wait(_PATIENCE)
    return "" if code == _CODE else f"the job ended with {code}, expected {_CODE}, the code of its rank: {job.last()}"


def _all(lines: list[Line], world: int) -> bool:
    return len({one["rank"] for one in of(lines, "launched", world=world)}) == world


_HOW: dict[str, Callable[[Runner, bool], str]] = {
    "launch/fixed": _fixed,
    "launch/elastic": _elastic,
    "launch/restart": _restart,
    "launch/budget": _budget,
}
