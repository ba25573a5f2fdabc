"""Counts of durations by size, as a histogram of Prometheus is made of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

RECOVERY: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds in seconds for the phases of a recovery: from a restart in place to a checkpoint out of a slow store."""
WRITES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""For a write to etcd."""


class Tally:
    """How many durations were at most so long; grows only."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one; what is below 0 counts as 0."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Each upper bound with the number of durations up to it; the last is ``+Inf``, with all."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


class Figures:
    """What a leader counts of its own term: the phases of recoveries, and its writes to etcd."""

    def __init__(self) -> None:
        self.phases: dict[str, Tally] = {}
        self.writes = Tally(WRITES)

    def phase(self, name: str, seconds: float) -> None:
        """A phase of a recovery is over."""
        self.phases.setdefault(name, Tally(RECOVERY)).observe(seconds)
