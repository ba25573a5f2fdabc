"""The longest times without progress that a job has come through, one entry for each time that it paused.

All ranks see the same pause, each at its own edges: what overlaps counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KEPT = 8  # pauses; the two longest are all that is asked for, the rest is there to grow by overlaps


@dataclass(frozen=True, slots=True)
class Gap:
    """Seconds of a monotonic clock at which a pause began and ended."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start

    def overlaps(self, other: Gap) -> bool:
        return self.start < other.end and other.start < self.end


def longest(gaps: Iterable[Gap], new: Gap) -> tuple[Gap, ...]:
    """The pauses that are worth keeping with ``new`` among them, longest first; of those that overlap, the longest."""
    ordered = sorted([*gaps, new], key=lambda gap: -gap.length)
    kept: list[Gap] = []
    for gap in ordered:
        if len(kept) < KEPT and not any(gap.overlaps(other) for other in kept):
            kept.append(gap)
    return tuple(kept)
