"""A job's generations, each with the phases of its recovery: put together from the lines of the history. Values only.

The seconds stand in the lines (``Happening.spans``): of a phase in the line with which it is over. What ends before a
generation is planned (the wait for nodes, detection, abort) is the beginning of its recovery; what comes later is its
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from elaunch.metrics.goodput import LOST_WORK, OVER, PHASES, USEFUL
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening
from elaunch.rendezvous.plan import Plan

MOST = 100
_STARTING, _ABORTING, _WORKING = "job_starting", "job_aborting", "job_working"
_ENDS = ("job_succeeded", "job_failed", "job_stopped")


@dataclass(slots=True)
class Generation:
    """One generation as far as the history tells. Times are wall-clock seconds, None for not yet."""

    number: int
    began: float
    text: str
    spans: dict[str, float] = field(default_factory=dict)
    worked: float | None = None
    told: str = ""
    ended: float | None = None
    end: str = ""
    lost: float | None = None
    last: float = 0.0


def generations(lines: Iterable[Happening]) -> list[Generation]:
    """The generations of a history, the oldest first."""
    found: list[Generation] = []
    before: dict[str, float] = {}  # what belongs to the next one
    for line in lines:
        if line.code == _STARTING:
            if found and found[-1].ended is None:
                found[-1].ended = line.time
                found[-1].end = _reason(line.text)
            _lose(found, line)
            found.append(Generation(line.generation, line.time, _reason(line.text), {**before}, last=line.time))
            _add(found[-1].spans, line)
            before = {}
        elif line.code in (_ABORTING, *_ENDS):
            _end(found, line)
            _share(found, before, line)
        elif line.code == "job_waiting":
            _lose(found, line)
            _add(before, line)
        elif line.spans and found:
            _add(found[-1].spans, line)
            found[-1].last = line.time
        if line.code == _WORKING and found:
            found[-1].worked, found[-1].told = line.time, line.text
    return found


def _end(found: list[Generation], line: Happening) -> None:
    if found and found[-1].ended is None:
        found[-1].ended, found[-1].end = line.time, _reason(line.text)


def _share(found: list[Generation], before: dict[str, float], line: Happening) -> None:
    """A line that ends a generation tells phases of it and of the recovery that begins."""
    for phase, seconds in line.spans.items():
        if phase in ("detection", "abort", "waiting"):
            before[phase] = before.get(phase, 0.0) + seconds
        elif phase in PHASES and found:
            found[-1].spans[phase] = found[-1].spans.get(phase, 0.0) + seconds
            found[-1].last = line.time
    _lose(found, line)


def _lose(found: list[Generation], line: Happening) -> None:
    if found and LOST_WORK in line.spans:
        found[-1].lost = line.spans[LOST_WORK]


def _add(spans: dict[str, float], line: Happening) -> None:
    for phase, seconds in line.spans.items():
        if phase in PHASES:
            spans[phase] = spans.get(phase, 0.0) + seconds


def _reason(text: str) -> str:
    """What stands after the colon of such a line."""
    return text.partition(": ")[2] or text


def generations_document(
    job: str, lines: Iterable[Happening], reply: pb.StatusReply | None, at: float, plan: Plan | None
) -> dict[str, Any]:
    """As the page reads them, the newest first. ``plan`` is the newest one's."""
    found = generations(lines)[-MOST:]
    rows = [_row(one, reply if one is found[-1] else None, at) for one in found]
    if rows and plan is not None and rows[-1]["generation"] == plan.generation:
        rows[-1]["ranks"], rows[-1]["nodes"] = plan.world_size, len(plan.members)
        rows[-1]["reason"] = {"code": plan.reason.code, "text": plan.reason.text}
    return {"job": job, "at": at, "generations": rows[::-1]}


def _row(one: Generation, reply: pb.StatusReply | None, at: float) -> dict[str, Any]:
    running = _running(one, reply)
    phases: list[tuple[str, float, bool]] = [(p, round(one.spans[p], 3), False) for p in PHASES if p in one.spans]
    if running is not None:
        phases.append((running, round(reply.accounts.activity_seconds, 3) if reply else 0.0, True))
    end = at if running is not None else one.worked or one.last or one.began
    spent = sum(seconds for _, seconds, _ in phases)
    told, begin = [], end - spent
    for phase, seconds, going in phases:
        told.append({"phase": phase, "seconds": seconds, "at": round(begin, 3)} | ({"running": True} if going else {}))
        begin += seconds
    over = one.ended if one.ended is not None else at
    return {
        "generation": one.number,
        "began": one.began,
        "ended": one.ended,
        "ranks": None,
        "nodes": None,
        "reason": {"code": "", "text": one.text},
        "end": {"code": "", "text": one.end} if one.ended is not None else None,
        "complete": one.worked is not None or one.ended is not None,
        "first_step": _first_step(one.told),
        "phases": told,
        "work_seconds": round(max(0.0, over - one.worked), 3) if one.worked is not None else None,
        "lost_seconds": one.lost,
    }


def _running(one: Generation, reply: pb.StatusReply | None) -> str | None:
    """The phase that the newest generation is in now."""
    if reply is None or not reply.HasField("accounts") or one.ended is not None or one.worked is not None:
        return None
    activity = reply.accounts.activity
    return activity if activity not in (USEFUL, OVER) and activity in PHASES else None


def _first_step(text: str) -> int | None:
    """Of ``generation 3 is at work at step 12, after 4.1 s``."""
    number = text.partition(" at step ")[2].partition(",")[0]
    return int(number) if number.isdecimal() else None
