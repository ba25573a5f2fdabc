"""The last steps of one rank, long enough to judge its pace by: cumulative times in, rates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

STEPS = 10  # that a window has at least, or so many collectives: so a slow rank is told within 20, heartbeats included
SECONDS = 4.0  # that it has as well for programs that do not tell their steps
SPANS = 4  # between two heartbeats each, that it has at least: fewer do not tell a slow step from many
MOST_SPANS = 64


@dataclass(frozen=True, slots=True)
class Mark:
    """``done`` counts steps or collectives, ``own`` and ``total`` are cumulative seconds."""

    done: int
    own: float
    total: float


@dataclass(frozen=True, slots=True)
class Window:
    """The newest part of what is known of a rank: long enough to judge by. Rates are own seconds per unit."""

    marks: tuple[Mark, ...]
    stepping: bool

    @property
    def units(self) -> float:
        """Steps, or seconds."""
        return self._units(self.marks[0], self.marks[-1])

    @property
    def rate(self) -> float:
        return self._rate(self.marks[0], self.marks[-1])

    def held(self, share: float) -> float:
        """The rate that this share of its steps (or collectives) has at least."""
        spans = [(self._rate(a, b), b.done - a.done) for a, b in pairwise(self.marks)]
        left = (self.marks[-1].done - self.marks[0].done) * (1.0 - share)
        for rate, weight in sorted(spans):
            left -= weight
            if left < -1e-9:
                return rate
        return max(spans)[0]

    def _units(self, start: Mark, end: Mark) -> float:
        return float(end.done - start.done) if self.stepping else end.total - start.total

    def _rate(self, start: Mark, end: Mark) -> float:
        return (end.own - start.own) / max(self._units(start, end), 1e-9)


def begin(marks: Sequence[Mark], stepping: bool) -> int:
    """The mark at which the shortest window begins that ends with the last one; -1 for none."""
    last = marks[-1]
    for place in range(len(marks) - 1 - SPANS, -1, -1):
        mark = marks[place]
        if last.done - mark.done >= STEPS and (stepping or last.total - mark.total >= SECONDS):
            return place
    return -1
