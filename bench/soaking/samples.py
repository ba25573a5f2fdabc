"""Invariants: the loss of each step, and each sample of an epoch exactly once. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .broken import BrokenError
from .commits import Commit
from .lines import Line

TOLERANCE = 1e-9  # of a loss, relative: the order of sums differs with the number of ranks
LOSS, SAMPLES = "loss-curve", "samples"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A step of the undisturbed run."""

    step: int
    epoch: int
    ids: tuple[int, ...]
    loss: float


@dataclass
class Curve:
    """All that was done, against the undisturbed run; ``size`` is the number of samples of an epoch.

    Each method raises BrokenError. A step counts for the last generation that did it and committed it, or a later one.
    ``_done`` is by step, generation and rank.
    """

    size: int
    wanted: dict[int, Wanted] = field(default_factory=dict)
    _done: dict[int, dict[int, dict[int, Line]]] = field(default_factory=dict)
    _from: dict[int, int] = field(default_factory=dict)
    _counted: dict[int, Line] = field(default_factory=dict)
    _seen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _whole: set[int] = field(default_factory=set)
    _last: int = 0

    def hear(self, line: Line) -> None:
        """A rank has written this; of a step that is ``wanted`` already."""
        if line.event == "restored":
            self._from[line.generation] = line.step
        if line.event != "step":
            return
        wanted = self.wanted[line.step]
        if not abs(line.loss - wanted.loss) <= TOLERANCE * abs(wanted.loss):  # a NaN is none either
            raise BrokenError(LOSS, f"{line}: {line.loss!r}, undisturbed it is {wanted.loss!r}")
        if line.epoch != wanted.epoch:
            raise BrokenError(SAMPLES, f"{line} is of epoch {line.epoch}, undisturbed of {wanted.epoch}")
        ranks = self._done.setdefault(line.step, {}).setdefault(line.generation, {})
        ranks[line.rank] = line
        if strangers := set(line.ids) - set(wanted.ids):
            raise BrokenError(SAMPLES, f"{line} has taken samples {sorted(strangers)[:5]}, which are of other steps")
        joined = [one for other in ranks.values() for one in other.ids]
        if len(joined) != len(set(joined)):
            raise BrokenError(SAMPLES, f"{line} has taken samples that another rank has taken: {sorted(joined)}")

    def commit(self, commit: Commit) -> None:
        """All steps up to here count now; all that ranks have written before it was heard."""
        start = self._from.get(commit.generation)
        if start is None:
            raise BrokenError(SAMPLES, f"{commit} is there, and no rank of it has told from where it goes on")
        if commit.generation != self._last:
            for step in [step for step in self._counted if step > start]:
                del self._counted[step], self._seen[step]
            self._last = commit.generation
        for step in range(max(self._counted, default=0) + 1, commit.step + 1):
            doers = [g for g in self._done.get(step, ()) if g < commit.generation or step > start]
            self._count(commit if step > start else f"restored step {start}", max(doers, default=0), step)
        for epoch in {self.wanted[step].epoch for step in range(max(start, 1), commit.step)}:
            if epoch < self.wanted[commit.step].epoch and epoch not in self._whole:
                self._check_epoch(epoch)

    def _count(self, commit: object, generation: int, step: int) -> None:
        ranks = self._done.get(step, {}).get(generation, {})
        world = next((line.world for line in ranks.values()), 0)
        if not ranks or len(ranks) != world:
            text = f"{commit}: step {step} was done by ranks {sorted(ranks)} of {world} in generation {generation}"
            raise BrokenError(SAMPLES, text)
        ids = tuple(one for line in ranks.values() for one in line.ids)
        if missing := sorted(set(self.wanted[step].ids) - set(ids)):
            raise BrokenError(SAMPLES, f"{commit}: nobody has taken samples {missing} in step {step}")
        self._counted[step], self._seen[step] = ranks[min(ranks)], ids

    def _check_epoch(self, epoch: int) -> None:
        seen = [one for step, ids in self._seen.items() if self.wanted[step].epoch == epoch for one in ids]
        if sorted(seen) != list(range(self.size)):
            double = sorted(one for one, times in Counter(seen).items() if times > 1)
            missing = sorted(set(range(self.size)) - set(seen))
            raise BrokenError(SAMPLES, f"epoch {epoch}: missing {missing[:5]}, more than once {double[:5]}")
        self._whole.add(epoch)

    @property
    def counted(self) -> Sequence[Line]:
        """The steps that count, as the lowest rank has told them."""
        return [self._counted[step] for step in sorted(self._counted)]

    @property
    def redone(self) -> int:
        """Steps that were done and do not count."""
        return sum(map(len, self._done.values())) - len(self._counted)


def wanted_of(values: Mapping[str, object]) -> Wanted:
    """From a line of the reference."""
    return Wanted(**{**values, "ids": tuple(values["ids"])})  # type: ignore[arg-type]
