"""Invariant: nothing leaks. What is counted over time must be flat, and at the end nothing may be left. Values only."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .broken import BrokenError

NAME = "leak"
WARM_UP = 45.0  # seconds of a process, or of the run, that do not count: imports take long on a slow machine
LEAST = 60.0  # seconds of figures, without which nothing is said


@dataclass(frozen=True, slots=True)
class Allowed:
    """How much a figure may grow from the first third to the last, absolute and as a share of it."""

    more: float
    share: float = 0.0


ALLOWED = {
    "descriptors": Allowed(8),
    "memory, KiB": Allowed(8 << 10, 0.1),
    "processes": Allowed(6),
    "listening sockets": Allowed(6),
    "shared memory files": Allowed(2),
    "temporary files": Allowed(12),
}
"""A host's processes and sockets come and go with its ranks: a third may have seen fewer of them."""

Figures = dict[tuple[str, str], list[tuple[float, float]]]
"""(Whose, one of ALLOWED) to (seconds, value)."""


def grown(values: Sequence[tuple[float, float]], allowed: Allowed) -> str:
    """What has grown beyond what is allowed, in words; "" where nothing has, or it is too early to say."""
    if not values:
        return ""
    begin = values[0][0] + WARM_UP
    counted = [(at, value) for at, value in values if at >= begin]
    if not counted or counted[-1][0] - counted[0][0] < LEAST:
        return ""
    length = (counted[-1][0] - counted[0][0]) / 3
    first = statistics.median(value for at, value in counted if at <= counted[0][0] + length)
    last = statistics.median(value for at, value in counted if at >= counted[-1][0] - length)
    if last - first <= max(allowed.more, allowed.share * first):
        return ""
    return f"{first:g} in the first third, {last:g} in the last"


def check_flat(figures: Figures) -> None:
    """Raises BrokenError."""
    for (whose, what), values in figures.items():
        if text := grown(values, ALLOWED[what]):
            raise BrokenError(NAME, f"{what} of {whose}: {text}")


def check_left(found: Mapping[str, frozenset[str]]) -> None:
    """Raises BrokenError where anything of ours is there after the end."""
    for what, names in found.items():
        if left := sorted(names):
            raise BrokenError(NAME, f"{len(left)} {what} left after the end: {', '.join(left[:5])}")


class Zombies:
    """Children that nobody has reaped; each is a process by pid and start."""

    def __init__(self, longest: float = 30.0) -> None:
        self._longest = longest
        self._since: dict[tuple[int, int], float] = {}

    def see(self, at: float, there: Mapping[tuple[int, int], str]) -> None:
        """Raises BrokenError where one has been there for long."""
        self._since = {one: self._since.get(one, at) for one in there}
        for one, since in self._since.items():
            if at - since > self._longest:
                raise BrokenError(
                    NAME, f"pid {one[0]} ({there[one]}) has ended {at - since:.0f} s ago, and is not reaped"
                )
