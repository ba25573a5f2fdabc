"""Which rank's streams go where: ``--redirects``, ``--tee``, ``--local-ranks-filter``."""

from __future__ import annotations

import re

from elaunch.agent.options import Streams

_ONE = re.compile(r"[0-3]")
_MAP = re.compile(r"[0-9]+:[0-3](,[0-9]+:[0-3])*")
_RANKS = re.compile(r"\s*[0-9]+\s*(,\s*[0-9]+\s*)*")


def parse_streams(text: str, slots: int) -> tuple[Streams, ...]:
    """The streams of each of ``slots`` local ranks. A rank that a map leaves out has none.

    Raises ValueError that says what was expected.
    """
    if _ONE.fullmatch(text):
        return (Streams(int(text)),) * slots
    if not _MAP.fullmatch(text):
        raise ValueError("expected 0 (none), 1 (stdout), 2 (stderr), 3 (both), or RANK:N,... such as 0:3,10:1")
    by_rank = {int(rank): Streams(int(value)) for rank, value in (pair.split(":") for pair in text.split(","))}
    return tuple(by_rank.get(rank, Streams.NONE) for rank in range(slots))


def parse_ranks(text: str) -> frozenset[int] | None:
    """The local ranks in ``text``; None, for all, where it is empty. Raises ValueError."""
    if not text:
        return None
    if not _RANKS.fullmatch(text):
        raise ValueError("expected local ranks with commas between, such as 0,1")
    return frozenset(int(rank) for rank in text.split(","))
