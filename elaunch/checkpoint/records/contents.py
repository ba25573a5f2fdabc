"""What a checkpoint holds, as a person thinks of it: the program's states, told from the manifest's flat keys."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elaunch.checkpoint.records import dtypes
from elaunch.checkpoint.records.manifest import Entry

_PER_RANK = re.compile(r"elaunch\.per_rank\.(\d+)\.(.+)", re.DOTALL)
_OF_ONE = re.compile(r"(.+?)\.(?:value|tensors(?:\..*)?)", re.DOTALL)
_SHAPE = "elaunch.shape."


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the state, over all ranks. ``size`` is in bytes, None for a type that is not known."""

    key: str
    entry: Entry
    elements: int
    size: int | None


@dataclass(frozen=True, slots=True)
class PerRankState:
    """A state that each rank has for itself: which ranks, and how many tensors in all."""

    name: str
    ranks: tuple[int, ...]
    tensors: int


@dataclass(frozen=True, slots=True)
class Total:
    """What the state of one name comes to; ``size`` leaves out tensors of unknown types."""

    name: str
    tensors: int
    elements: int
    size: int
    values: int


@dataclass(frozen=True, slots=True)
class Contents:
    """``values`` are the keys of what is no tensor. What elaunch stores for itself is left out."""

    tensors: tuple[Tensor, ...]
    values: tuple[str, ...]
    per_rank: tuple[PerRankState, ...]

    def totals(self) -> list[Total]:
        """By state: the name before the first dot."""
        tensors: dict[str, list[Tensor]] = {
            _state(key): [] for key in (*(one.key for one in self.tensors), *self.values)
        }
        values = Counter(map(_state, self.values))
        for tensor in self.tensors:
            tensors[_state(tensor.key)].append(tensor)
        return [_sum(name, of_it, values[name]) for name, of_it in tensors.items()]

    def total(self) -> Total:
        """Of all states that are not per rank."""
        return _sum("total", self.tensors, len(self.values))


def contents(entries: Mapping[str, Entry]) -> Contents:
    """Sort a manifest's entries."""
    tensors, values = [], []
    ranks: dict[str, set[int]] = {}
    counts: dict[str, int] = {}
    for key, entry in entries.items():
        if shape_of(key):
            continue
        if (found := per_rank_of(key)) is not None:
            name = within.group(1) if (within := _OF_ONE.fullmatch(found[0])) else found[0]
            ranks.setdefault(name, set()).add(found[1])
            counts[name] = counts.get(name, 0) + entry.is_tensor
        elif entry.is_tensor:
            tensors.append(_tensor(key, entry))
        else:
            values.append(key)
    per_rank = tuple(PerRankState(name, tuple(sorted(who)), counts[name]) for name, who in ranks.items())
    return Contents(tuple(tensors), tuple(values), per_rank)


def shape_of(root: str) -> str:
    """The state whose shape is stored under this top-level key (shared.py); empty for any other key."""
    return root.removeprefix(_SHAPE) if root.startswith(_SHAPE) else ""


def per_rank_of(root: str) -> tuple[str, int] | None:
    """The state and the rank that are stored under this top-level key (per_rank.py); None for any other key."""
    found = _PER_RANK.fullmatch(root)
    return (found.group(2), int(found.group(1))) if found else None


def _tensor(key: str, entry: Entry) -> Tensor:
    elements, width = math.prod(entry.shape), dtypes.width(entry.dtype)
    return Tensor(key, entry, elements, None if width is None else elements * width)


def _sum(name: str, tensors: Sequence[Tensor], values: int) -> Total:
    elements, size = sum(tensor.elements for tensor in tensors), sum(tensor.size or 0 for tensor in tensors)
    return Total(name, len(tensors), elements, size, values)


def _state(key: str) -> str:
    return key.partition(".")[0]
