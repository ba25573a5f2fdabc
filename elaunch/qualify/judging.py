"""What came of a fault against what must come of it (``elaunch.inject.EXPECTED``). Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from elaunch.inject.expecting import Expected, Settings, expected
from elaunch.inject.fault import Fault
from elaunch.qualify.cells import Cell, Outcome, Result

SLACK = 5.0
"""Seconds beyond a bound that a machine may be late by: bounds hold for machines that are not overloaded."""
_OF_ALL = ("all_waiting",)  # all ranks wait for each other: nobody can be named


@dataclass(frozen=True, slots=True)
class Course:
    """What was seen of a fault. Times are wall-clock seconds, None for not seen.

    ``began`` is when it was injected, ``told`` when its ``code`` was, ``text`` the sentence; ``stopped`` when the ranks
    were, ``worked`` when the next generation was at work, or the same one after the fault. ``generations`` are the one
    that it hit and the present one. ``lost_steps`` were done again; ``phases`` are the recovery's, in seconds.
    ``hosts`` are those of which the sentence may name one. ``lapsed`` is what was waited for in vain, "" for nothing.
    """

    began: float | None
    generations: tuple[int, int]
    told: float | None = None
    code: str = ""
    text: str = ""
    stopped: float | None = None
    worked: float | None = None
    lost_steps: int | None = None
    lost_seconds: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    lapsed: str = ""


def judge(cell: Cell, fault: Fault, course: Course, settings: Settings, slack: float = SLACK) -> Result:
    """The cell's result: ok only if every part of the expectation holds; else the first that does not."""
    wanted = expected(fault, settings)
    wrong = _wrong(fault, course, wanted, wanted.within(settings) + slack)
    return Result(
        name=cell.name,
        text=cell.text,
        outcome=Outcome.FAILED if wrong else Outcome.OK,
        why=wrong,
        detection=_since(course, course.told),
        abort=_since(course, course.stopped),
        first_step=_since(course, course.worked),
        lost_steps=course.lost_steps,
        lost_seconds=course.lost_seconds,
        reason=course.text,
        phases=course.phases,
    )


def _since(course: Course, when: float | None) -> float | None:
    return None if when is None or course.began is None else round(max(0.0, when - course.began), 3)


def _wrong(fault: Fault, course: Course, wanted: Expected, bound: float) -> str:
    before, after = course.generations
    if course.began is None:
        return course.lapsed or "the fault was never injected"
    if wanted.generation == "same" and after != before:
        return f"no rank should have been disturbed, and generation {after} began: {course.text}"
    if wanted.generation == "next" and after == before:
        return f"the ranks should have been started again, and generation {before} still runs"
    if course.lapsed:
        return course.lapsed
    if after == before and wanted.generation == "either":
        return "" if course.worked is not None else f"generation {after} neither went on nor was stopped"
    if wanted.codes and not course.code:
        return f"it was not told: expected {' or '.join(wanted.codes)}"
    if wanted.codes and course.code not in wanted.codes:
        return f"told as {course.code}, expected {' or '.join(wanted.codes)}: {course.text}"
    if wanted.codes and (wrong := _unnamed(fault, course, wanted)):
        return wrong
    late = _since(course, course.told)
    if late is not None and late > bound:
        return f"told after {late:.1f} s, expected within {bound:.0f} s"
    if after != before and course.worked is None:
        return f"generation {after} did not come to a step"
    return ""


def _unnamed(fault: Fault, course: Course, wanted: Expected) -> str:
    if course.code in _OF_ALL:
        return ""
    if wanted.culprit == "rank" and f"rank {fault.rank}" not in course.text:
        return f"the sentence does not name rank {fault.rank}: {course.text}"
    if wanted.culprit == "host" and course.hosts and not any(host in course.text for host in course.hosts):
        return f"the sentence does not name {' or '.join(course.hosts)}: {course.text}"
    if wanted.culprit == "port" and fault.port not in course.text:
        return f"the sentence does not name port {fault.port}: {course.text}"
    return ""
