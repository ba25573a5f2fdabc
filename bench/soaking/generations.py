"""Invariant: never two generations alive at once. Values only."""

from __future__ import annotations

from .broken import BrokenError
from .lines import Line

NAME = "two-generations"


class Generations:
    """What the ranks have written, and which of them were seen alive. Each method raises BrokenError.

    A generation counts from the begin of its first step, on whichever rank. From then on no rank of an older one may
    write anything, or be alive. Lines of different ranks may come in any order.
    """

    def __init__(self) -> None:
        self._begun: dict[int, Line] = {}
        self._last: dict[int, Line] = {}
        self._alive: dict[int, tuple[float, int]] = {}

    def hear(self, line: Line) -> None:
        """A rank has written this."""
        number = line.generation
        if number not in self._last or self._last[number].t < line.t:
            self._last[number] = line
        if line.event == "begin" and (number not in self._begun or line.t < self._begun[number].t):
            self._begun[number] = line
            for older in (one for one in self._last.values() if one.generation < number):
                self._after(older, self._begun[number])
            for before, seen in self._alive.items():
                self._outlived(before, seen, self._begun[number])
        for newer in (one for one in self._begun.values() if one.generation > number):
            self._after(line, newer)

    def see(self, at: float, alive: dict[int, int]) -> None:
        """Ranks of these generations, each with the pid of one, were alive after ``at``."""
        for number, pid in alive.items():
            self._alive[number] = (at, pid)
            for newer in self._begun.values():
                self._outlived(number, (at, pid), newer)

    def newest(self, at: float) -> int:
        """The newest generation that had begun its first step by then; 0 for none."""
        return max((number for number, line in self._begun.items() if line.t <= at), default=0)

    @staticmethod
    def _after(older: Line, newer: Line) -> None:
        if older.t > newer.t:
            late = older.t - newer.t
            raise BrokenError(NAME, f"{older}, {late:.3f} s after the first step of generation {newer.generation}")

    @staticmethod
    def _outlived(older: int, seen: tuple[float, int], newer: Line) -> None:
        if older < newer.generation and seen[0] > newer.t:
            late = seen[0] - newer.t
            text = f"pid {seen[1]} of generation {older} is alive {late:.3f} s after the first step of generation"
            raise BrokenError(NAME, f"{text} {newer.generation}")
