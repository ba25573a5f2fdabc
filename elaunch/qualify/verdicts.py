"""What the ranks told of their cells, as results: a cell is ok where every rank says so. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from elaunch.qualify.cells import Cell, Outcome, Result, failed, not_run
from elaunch.qualify.lines import Line, of

_SHOWN = 3


def results(cells: Iterable[Cell], lines: Sequence[Line], world: int, ending: str) -> list[Result]:
    """Of the cells of one job of ``world`` ranks, in the order in which it tries them; ``ending`` says how it ended, ""
    for well.

    A job that ends badly ends in a cell: the first that nobody has told of, which has failed then, or the last one,
    after which the ranks part in agreement.
    """
    told = of(lines, "cell")
    found = [_result(cell, [one for one in told if one.get("name") == cell.name], world, ending) for cell in cells]
    if not ending or any(one.outcome is Outcome.FAILED for one in found):
        return found
    names = {one.get("name") for one in told}
    at = next((n for n, one in enumerate(found) if one.name not in names), len(found) - 1)
    where = "in it" if found[at].name not in names else "after it, the last one"
    found[at] = replace(found[at], outcome=Outcome.FAILED, why=f"{where}: {ending}")
    return found


def _result(cell: Cell, told: list[Line], world: int, ending: str) -> Result:
    if not told:
        return not_run(cell, f"its job did not come to it: {ending}" if ending else "no rank has told of it")
    wrong = [one for one in told if one.get("outcome") == Outcome.FAILED.value]
    if wrong:
        said = {str(one.get("why", "")): one["rank"] for one in reversed(wrong)}
        texts = [f"rank {rank}: {why}" for why, rank in sorted(said.items(), key=lambda item: item[1])]
        return failed(cell, "; ".join(texts[:_SHOWN]), seconds=_seconds(told))
    apart = [one for one in told if one.get("outcome") == Outcome.NOT_RUN.value]
    if apart:
        return not_run(cell, str(apart[0].get("why", "")))
    missing = sorted(set(range(world)) - {one["rank"] for one in told})
    if missing:
        return failed(cell, f"rank {missing[0]} told nothing of it{': ' + ending if ending else ''}")
    return Result(cell.name, cell.text, Outcome.OK, seconds=_seconds(told), reason=str(told[0].get("said", "")))


def _seconds(told: list[Line]) -> float | None:
    found = [float(one["seconds"]) for one in told if isinstance(one.get("seconds"), int | float)]
    return round(max(found), 3) if found else None
