"""A fault's course, read out of a job's history. Values only."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.inject.expecting import Settings, expected
from elaunch.inject.fault import Fault
from elaunch.qualify.judging import Course
from elaunch.rendezvous.journal import Happening
from elaunch.web.generations import generations

BEGAN, ENDED = "injection_began", "injection_ended"
_EARLY = 0.5  # seconds: an agent's word of what it did itself may come after the word of what came of it
_RECOVERY = ("detection", "abort", "waiting", "rendezvous", "start", "restore", "first_step")


def course(
    fault: Fault,
    lines: Sequence[Happening],
    before: int,
    after: int,
    code: str,
    text: str,
    *,
    hosts: tuple[str, ...] = (),
) -> Course:
    """Of a fault that hit generation ``before``; ``lines`` are the history since it was asked for.

    ``after`` is the generation that followed, ``code`` and ``text`` are why that began ("" where none did).
    """
    began = next((line.time for line in lines if line.code == BEGAN and str(fault) in line.text), None)
    told = code_time = None
    if after == before:
        wanted = expected(fault, Settings()).codes
        event = next((line for line in lines if line.code in wanted and line.time >= (began or 0.0) - _EARLY), None)
        if event is not None:
            code, text, told = event.code, event.text, event.time
    else:
        later = [line for line in lines if began is not None and line.time >= began - _EARLY]
        code_time = _first(later, "job_starting", before + 1)
        told = _first(later, "job_aborting", before) or code_time
    recovered = next((g for g in generations(lines) if g.number == after), None) if after != before else None
    return Course(
        began=began,
        generations=(before, after),
        told=told,
        code=code,
        text=text,
        stopped=code_time,
        worked=_first(lines, "job_working", after) if after != before else None,
        lost_seconds=_lost(lines),
        phases={p: round(recovered.spans[p], 3) for p in _RECOVERY if p in recovered.spans} if recovered else {},
        hosts=hosts,
    )


def _first(lines: Sequence[Happening], code: str, generation: int) -> float | None:
    return next((line.time for line in lines if line.code == code and line.generation >= generation), None)


def _lost(lines: Sequence[Happening]) -> float | None:
    found = [line.spans["lost_work"] for line in lines if "lost_work" in line.spans]
    return round(sum(found), 3) if found else None
