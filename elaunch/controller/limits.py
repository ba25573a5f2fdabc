"""For how long a rank may make no progress, and whether it has made none for longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from elaunch.controller.sightings import RankView


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many seconds a rank may make no progress.

    ``hang`` holds outside of sections (None: nothing is called a hang, but a section's own timeout still holds),
    ``section`` in a section without a timeout, ``sections`` for such ones by name where more is known of them.
    ``stopped`` is for a rank in state T, ``busy`` the factor for one that is at work or is being debugged,
    or that nobody waits for while the job is ``ending``: another rank is through.
    """

    hang: float | None = 60.0
    section: float = 600.0
    sections: Mapping[str, float] = field(default_factory=dict)
    stopped: float = 5.0
    busy: float = 10.0
    ending: bool = False


def allowance(view: RankView, limits: Limits) -> float:
    """Seconds without progress that ``view``'s rank has: its section's if one is open, else the job's."""
    rank = view.progress
    if not rank.section:
        return inf if limits.hang is None else limits.hang
    if rank.section_left is not None:
        return inf if rank.section_left >= 0 else 0.0
    return inf if limits.hang is None else limits.sections.get(rank.section, limits.section)


def overdue(view: RankView, limits: Limits) -> bool:
    """Whether the rank has made no progress for longer than it may."""
    rank = view.progress
    allowed = allowance(view, limits)
    if not rank.attached:  # it has not imported torch yet: one that uses the processor is on its way there
        return rank.progress_age >= (allowed if view.state_age >= allowed else allowed * limits.busy)
    at_work = not view.waiting and rank.where and limits.hang is not None and rank.where_age < limits.hang
    return rank.progress_age >= (allowed * limits.busy if at_work or rank.state == "t" else allowed)


def any_sign(ranks: Sequence[RankView], limits: Limits) -> bool:
    """Cheap, as it is all that happens at almost every look, and there may be tens of thousands of ranks."""
    shortest = inf if limits.hang is None else min(limits.hang, limits.section, *limits.sections.values())
    for view in ranks:
        rank = view.progress
        if (rank.progress_age >= shortest and rank.attached) or rank.state in "Tt":
            return True
        if rank.state == "D" and view.state_age >= shortest:
            return True
        if rank.section_left is not None and rank.section_left < 0:
            return True
    return False
