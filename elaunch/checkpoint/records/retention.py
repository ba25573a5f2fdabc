"""Which checkpoints are there, which one is the newest, and which may go. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Committed:
    """A committed checkpoint. Later claims are later history, whatever the steps: a run may have been set back."""

    claim: int
    step: int
    name: str


@dataclass(frozen=True, slots=True)
class Keep:
    """The newest ``last`` are kept, and those whose step is a multiple of ``every`` (0: none for that reason)."""

    last: int
    every: int = 0


def newest_first(committed: Iterable[Committed]) -> list[Committed]:
    """In the order in which a restore tries them."""
    return sorted(committed, reverse=True)


def to_remove(
    committed: Sequence[Committed], keep: Keep, marked: frozenset[str], protected: frozenset[str]
) -> list[Committed]:
    """What retention removes, oldest first.

    ``marked`` are the names of those that are known to be damaged: they count for nothing, and go once ``last`` good
    ones are newer. ``protected`` may not go: one that is being restored from or written.
    """
    good = 0
    gone = []
    for one in newest_first(committed):
        spent = good >= max(keep.last, 1)
        good += one.name not in marked
        kept_for_good = keep.every and one.step % keep.every == 0 and one.name not in marked
        if spent and not kept_for_good and one.name not in protected:
            gone.append(one)
    return gone[::-1]
