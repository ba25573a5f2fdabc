"""Invariant: never a stale commit, in the directory of checkpoints or in the ledger of it in etcd. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .broken import BrokenError
from .lines import Line

NAME = "stale-commit"


@dataclass(frozen=True, slots=True)
class Commit:
    """A checkpoint as its manifest tells it."""

    name: str
    step: int
    generation: int

    def __str__(self) -> str:
        return f"{self.name} of generation {self.generation}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The directory: the generation of its newest claim (0: none), looked at first, and what is committed."""

    at: float
    claimed: int
    commits: tuple[Commit, ...]


class Commits:
    """Of the directory, scan by scan. Each method raises BrokenError."""

    def __init__(self) -> None:
        self._known: dict[str, Commit] = {}
        self._claimed = 0
        self._newest: dict[int, int] = {}
        self._restored: dict[int, int] = {}

    def scan(self, scan: Scan, begun: int) -> list[Commit]:
        """What is new in it. ``begun`` is the newest generation that had begun its first step at the scan before."""
        new = sorted(
            (one for one in scan.commits if one.name not in self._known), key=lambda one: (one.generation, one.step)
        )
        for one in new:
            self._judge(one, begun)
        for one in new:
            self._known[one.name] = one
            self._newest[one.generation] = max(one.step, self._newest.get(one.generation, -1))
        if scan.claimed and scan.claimed < self._claimed:
            text = f"generation {scan.claimed} has claimed the directory after generation {self._claimed}"
            raise BrokenError(NAME, text)
        self._claimed = max(scan.claimed, self._claimed)
        for generation in self._restored:
            self._check_restore(generation)
        return new

    def hear(self, line: Line) -> None:
        """A rank tells from which step it goes on."""
        if line.event != "restored":
            return
        before = self._restored.setdefault(line.generation, line.step)
        if before != line.step:
            raise BrokenError(NAME, f"{line}, where another rank of it has restored step {before}")
        self._check_restore(line.generation)

    def generation_of(self, name: str) -> int:
        """Whose checkpoint this is; 0 where it was never seen."""
        return self._known[name].generation if name in self._known else 0

    def _judge(self, one: Commit, begun: int) -> None:
        if one.generation < self._claimed:
            raise BrokenError(NAME, f"{one} has appeared after generation {self._claimed} had claimed the directory")
        if one.generation < begun:
            raise BrokenError(NAME, f"{one} has appeared after the first step of generation {begun}")
        last = self._newest.get(one.generation, self._restored.get(one.generation, -1))
        if one.step <= last:
            raise BrokenError(NAME, f"{one} has appeared after step {last} of the same generation")

    def _check_restore(self, generation: int) -> None:
        step = self._restored[generation]
        newest = max((s for g, s in self._newest.items() if g < generation), default=0)
        if step < newest:
            raise BrokenError(NAME, f"generation {generation} goes on from step {step}, and {newest} was committed")


@dataclass(frozen=True, slots=True)
class Look:
    """etcd: the generation of the job's state, and the last checkpoint recorded (generation 0: none)."""

    generation: int
    record: Commit


class Ledger:
    """What etcd says of checkpoints, look by look; within a look state and record may be of different moments."""

    def __init__(self) -> None:
        self._looks: list[Look] = []

    def look(self, look: Look, commits: Commits) -> None:
        """Raises BrokenError."""
        record = look.record
        if self._looks:
            last = self._looks[-1].record
            if record.generation < last.generation:
                raise BrokenError(NAME, f"the ledger names {record}, after {last}")
            if record.generation == last.generation and record.step < last.step:
                raise BrokenError(NAME, f"the ledger goes back to {record}, after {last}")
            if len(self._looks) > 1 and record != last and record.generation < self._looks[-2].generation:
                text = f"the ledger names {record}, after generation {self._looks[-2].generation} was planned"
                raise BrokenError(NAME, text)
        seen = commits.generation_of(record.name)
        if seen and seen != record.generation:
            raise BrokenError(NAME, f"the ledger names {record}, whose manifest says generation {seen}")
        self._looks = [*self._looks[-1:], look]


def newest(claims: Sequence[tuple[int, int]]) -> int:
    """The generation of the claim of the highest number; 0 where there is none."""
    return max(claims, default=(0, 0))[1]
