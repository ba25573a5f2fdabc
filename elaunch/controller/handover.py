"""What a leader hands on of what it has learnt of a job's pace, and when that is worth a write. No clock in here.

It stands in the job's state in etcd. Not the figures count, which change all the time, but the deadlines that follow
from them: as long as these stay about the same nothing is written. Pauses only grow, so a job that is ever slower is
written down once for each half more; one with steps of a second and no pauses, once in each generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from elaunch.controller.patience import Patience, in_section, ordinary, starting
from elaunch.rendezvous.memory import Learnt

CHANGE = 1.5  # times a deadline: less is not worth a write
SECTIONS_TOLD = 32  # those with the longest deadlines
LONGEST_NAME = 200  # characters of a section's name that is handed on


def handed_on(found: Learnt, patience: Patience) -> Learnt:
    """Of ``found`` what the next leader needs: of the sections, those that would not have that long anyway."""
    usual = in_section(0.0, _hang(found, patience))
    longer = [
        (name, seconds)
        for name, seconds in found.sections.items()
        if in_section(seconds, 0.0) > usual and len(name) <= LONGEST_NAME
    ]
    kept = sorted(longer, key=lambda section: (-section[1], section[0]))[:SECTIONS_TOLD]
    return replace(found, sections=dict(kept))


def worth_telling(told: Learnt, found: Learnt, patience: Patience) -> bool:
    """Whether a leader that knows ``told`` would wait for much longer or shorter than one that knows ``found``."""
    if found.going > told.going:
        return True
    before, after = _deadlines(told, found, patience), _deadlines(found, found, patience)
    return any(max(old, new) >= CHANGE * min(old, new) for old, new in zip(before, after, strict=True))


def _deadlines(known: Learnt, names: Learnt, patience: Patience) -> Iterator[float]:
    hang = _hang(known, patience)
    yield hang
    yield starting(known, patience.floor)
    for name in names.sections:
        yield in_section(known.sections.get(name, 0.0), hang)


def _hang(known: Learnt, patience: Patience) -> float:
    return patience.timeout or ordinary(known, patience.floor)
