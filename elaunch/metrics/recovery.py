"""One recovery of a job, from the fault to the first step: what a trace is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recovery:
    """``phases`` are in their order, with their seconds; the last was over at ``ended`` (wall clock, seconds).

    ``code`` and ``reason`` say why the generation began. ``first_step`` is -1 where the program tells no steps.
    """

    job: str
    generation: int
    restart_count: int
    code: str
    reason: str
    ended: float
    phases: tuple[tuple[str, float], ...]
    first_step: int = -1

    @property
    def began(self) -> float:
        """When the first phase began."""
        return self.ended - sum(seconds for _, seconds in self.phases)

    def spans(self) -> Iterator[tuple[str, float, float]]:
        """Each phase with its begin and end."""
        begin = self.began
        for phase, seconds in self.phases:
            yield phase, begin, begin + seconds
            begin += seconds
