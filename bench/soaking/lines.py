"""What the ranks write of themselves, as values, and the files that it stands in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

EVENTS = ("start", "restored", "begin", "step", "end")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a rank. ``t`` and ``began`` (of a step) are seconds of CLOCK_MONOTONIC, ``started`` ticks."""

    event: str
    generation: int
    rank: int
    pid: int
    world: int
    t: float
    step: int = -1
    epoch: int = -1
    ids: tuple[int, ...] = ()
    loss: float = 0.0
    began: float = 0.0
    started: int = 0

    def __str__(self) -> str:
        what = f"{self.event} {self.step}" if self.step >= 0 else self.event
        return f"{what} of rank {self.rank} of generation {self.generation} (pid {self.pid})"


def parsed(text: str) -> Line:
    """Raises ValueError, TypeError."""
    values = json.loads(text)
    values["ids"] = tuple(values.get("ids", ()))
    return Line(**values)


class Tail:
    """The files of a folder, as they grow; whole lines only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def more(self) -> list[Line]:
        """What was added since the last look, in the order of time."""
        found: list[Line] = []
        for path in self._folder.glob("*.jsonl"):
            before = self._read.get(path, 0)
            if path.stat().st_size == before:
                continue
            with path.open("rb") as file:
                file.seek(before)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = before + len(whole) + len(newline)
            found += [parsed(line) for line in whole.decode().splitlines()]
        return sorted(found, key=lambda line: line.t)
