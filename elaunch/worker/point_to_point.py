"""Which of a group's sequence numbers went to sends and receives, so that collectives alone can be counted.

Gloo numbers everything that goes through a group in one sequence. Ranks of a group send and receive different numbers
of times, so their numbers drift apart though each is in the same collective.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_METHODS = ("send", "recv", "recv_anysource", "monitored_barrier")


@dataclass(slots=True)
class Numbers:
    """Numbers that were no collective's: ``runs`` of first and last, and how many below them."""

    runs: list[list[int]] = field(default_factory=list)
    below: int = 0

    def add(self, first: int, last: int) -> None:
        """All from ``first`` to ``last``, higher than those before."""
        if self.runs and self.runs[-1][1] + 1 == first:
            self.runs[-1][1] = last
        else:
            self.runs.append([first, last])

    def collectives(self, number: int) -> int:
        """How many collectives there are up to ``number``."""
        others = sum(min(last, number) - first + 1 for first, last in self.runs if first <= number)
        return max(0, number - self.below - others)

    def forget(self, number: int) -> None:
        """What is asked for from now on is not below ``number``.

        The last run stays: another thread may be about to prolong it, in the middle of the program's ``send``.
        """
        while len(self.runs) > 1 and self.runs[0][1] <= number:
            first, last = self.runs.pop(0)
            self.below += last - first + 1


_groups: weakref.WeakKeyDictionary[Any, Numbers] = weakref.WeakKeyDictionary()
_NONE = Numbers()


def numbers(group: Any) -> Numbers:
    """Those of a process group."""
    return _groups.get(group, _NONE) if group is not None else _NONE


def watch(process_group: Any) -> None:
    """Have the class of process groups note what it sends and receives from now on."""
    for name in _METHODS:
        method = getattr(process_group, name, None)
        if method is not None and not hasattr(method, "elaunch"):
            setattr(process_group, name, _noting(method))


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def noted(group: Any, *args: Any, **more: Any) -> Any:
        before = _sequence(group)
        try:
            return method(group, *args, **more)
        finally:
            after = _sequence(group)
            if after > before:  # not so with backends that number them apart
                _groups.setdefault(group, Numbers()).add(before + 1, after)

    noted.elaunch = True  # type: ignore[attr-defined]
    return noted


def _sequence(group: Any) -> int:
    try:
        return int(group._get_sequence_number_for_group())
    except RuntimeError:  # a backend without
        return 0
