"""A hang's verdict as a record and as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.controller.sightings import RankView
from elaunch.progress import GroupProgress

NAMED = 8  # ranks that a sentence names at most


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank to blame: where it runs, the line that it is at, and what it last entered in the group in question."""

    rank: int
    host: str
    node_id: str
    where: str
    group: str = ""
    started: int = 0
    collective: str = ""


@dataclass(frozen=True, slots=True)
class Hang:
    """Why a generation is not going to end by itself: ``code`` for a machine, ``text`` for a person.

    ``culprits`` are the ranks to blame, the likeliest first; nobody where only the transport is left. ``waiting``
    ranks wait in collective ``sequence`` of ``group`` ("" and 0 where it is none), for ``seconds``.
    """

    code: str
    text: str
    culprits: tuple[Culprit, ...] = ()
    group: str = ""
    sequence: int = 0
    waiting: int = 0
    seconds: float = 0.0


def culprit(view: RankView, group: str = "") -> Culprit:
    """``view``'s rank as one to blame; without a ``group``, the one that it waits in or used last is told."""
    rank = view.progress
    named = [g for g in rank.groups if g.name == group] if group else sorted(rank.groups, key=_liveliest)
    last = named[-1] if named else GroupProgress(group, 0, 0, 0)
    return Culprit(rank.rank, view.host, view.node_id, rank.where, last.name, last.started, last.collective)


def _liveliest(group: GroupProgress) -> tuple[bool, int]:
    return group.waiting, group.started


def from_rank(view: RankView) -> str:
    """``rank 3 (gpu-07)``."""
    return f"rank {view.rank} ({view.host})" if view.host else f"rank {view.rank}, of which nothing is heard,"


def place(view: RankView, subject: str = "it is") -> str:
    """``; it is at train.py:31 in step``, or with no ``subject`` `` at train.py:31 in step``; "" if unknown."""
    if not view.progress.where:
        return ""
    section = f" (section {view.progress.section!r})" if view.progress.section and subject else ""
    return f"{f'; {subject}' if subject else ''} at {view.progress.where}{section}"


def unattached(view: RankView) -> str:
    """What is known of a rank that lives and tells nothing of itself."""
    if view.progress.attached or not view.host:
        return ""
    return f"; it has not imported torch since its start {view.progress.progress_age:.0f} s ago"


def others(views: Sequence[RankView]) -> str:
    """``; likewise ranks 5, 6``: all but the first."""
    rest = [str(view.rank) for view in views[1:]]
    if not rest:
        return ""
    more = f" and {len(rest) - NAMED} more" if len(rest) > NAMED else ""
    return f"; likewise rank{'s' if len(rest) > 1 else ''} {', '.join(rest[:NAMED])}{more}"


def spread(number: int) -> str:
    """``7 others wait in``."""
    return "1 other waits in" if number == 1 else f"{number} others wait in"
