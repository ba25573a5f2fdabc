"""State that every rank has for itself: random numbers, a loader's position, whatever the program says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from elaunch.checkpoint.state.holders import put, state_of
from elaunch.checkpoint.state.saved import Path, Saved, nested, said
from elaunch.checkpoint.state.tree import decode, encode
from elaunch.errors import DamagedCheckpointError, StateError

Reshard = Callable[[list[Any], int, int], Any]
_ROOT = "elaunch.per_rank"


class PerRank:
    """Declares that ``obj`` differs from rank to rank: each rank's state has a key of its own, and is never merged.

    Args:
        obj: anything with ``state_dict`` and ``load_state_dict``, a dict, a tensor, or a plain value.
        reshard: called as ``reshard(states, rank, world)`` on every rank when the world size changed, with the states
            of all ranks that saved, in their order; returns this rank's new state. Without it
            ``obj.reshard_state_dict``, of the same signature, is called; an object without that is not restored into
            another world.
    """

    __slots__ = ("obj", "reshard")

    def __init__(self, obj: object, reshard: Reshard | None = None) -> None:
        self.obj = obj
        self.reshard = reshard

    @property
    def resharding(self) -> Reshard | None:
        """What turns the states of an old world into this rank's, if anything does."""
        return self.reshard or getattr(self.obj, "reshard_state_dict", None)


def root_of(name: str, rank: int) -> str:
    """The top-level key of the checkpoint that holds ``rank``'s state."""
    return f"{_ROOT}.{rank}.{name}"


class PerRankPart:
    """The state named ``name`` of rank ``rank`` of ``world``."""

    def __init__(self, name: str, declared: PerRank, rank: int, world: int) -> None:
        self.name = name
        self.value = declared.obj
        self._declared = declared
        self._rank, self._world = rank, world
        self._roots: list[dict[str, Saved]] = []

    def collect(self) -> dict[str, Any]:
        stored, shape = encode(state_of(self.value), (self.name,))
        packed: dict[str, Any] = {}
        places: list[Path] = []
        tensors: list[Any] = []
        stored = _without_tensors(stored, (), places, tensors, self.name)
        # One value for all that is no tensor, for the keys of all ranks stand in the checkpoint's metadata. In a tuple,
        # so that it is not taken apart.
        packed["value"] = (shape, stored, tuple(places))
        if tensors:
            packed["tensors"] = tensors
        return {root_of(self.name, self._rank): packed}

    def shared_values(self) -> dict[str, bytes]:
        return {}

    def is_in(self, roots: Mapping[str, Mapping[str, Saved]]) -> bool:
        return root_of(self.name, 0) in roots

    def targets(self, roots: Mapping[str, dict[str, Saved]], saved_world: int) -> dict[str, Any]:
        if saved_world == self._world:
            ranks = [self._rank]
        elif self._declared.resharding is not None:
            ranks = list(range(saved_world))
        else:
            raise StateError(
                f"state {self.name!r} is per rank and was saved at {saved_world} ranks, now there are {self._world}, "
                "and nothing says how to turn the old states into the new ones; give PerRank(..., reshard=function), "
                f"or start {saved_world} ranks"
            )
        missing = next((rank for rank in ranks if root_of(self.name, rank) not in roots), None)
        if missing is not None:
            raise StateError(f"the checkpoint of {saved_world} ranks lacks the state {self.name!r} of rank {missing}")
        self._roots = [roots[root_of(self.name, rank)] for rank in ranks]
        return {
            key: torch.empty(saved.size, dtype=saved.dtype) if saved.is_tensor else None
            for root in self._roots
            for key, saved in root.items()
        }

    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None:
        states = [self._unpacked(root, loaded) for root in self._roots]
        state = states[0]
        if saved_world != self._world:
            assert self._declared.resharding is not None
            state = self._declared.resharding(states, self._rank, self._world)
        self.value = put(self.name, self.value, state)

    def _unpacked(self, root: Mapping[str, Saved], loaded: Mapping[str, Any]) -> Any:
        packed = nested((saved.path[1:], loaded[key]) for key, saved in root.items())
        try:
            shape, stored, places = packed["value"]
            for place, tensor in zip(places, packed.get("tensors", ()), strict=True):
                stored = _with(stored, place, tensor)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise DamagedCheckpointError(
                f"the state {self.name!r} of a rank does not hold together ({error!r})"
            ) from error
        return decode(stored, shape)


def _with(stored: Any, place: Path, tensor: Any) -> Any:
    """``stored`` with ``tensor`` at ``place``."""
    if not place:
        return tensor
    holder = stored
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = tensor
    return stored


def _without_tensors(stored: Any, place: Path, places: list[Path], tensors: list[Any], name: str) -> Any:
    """``stored`` with None in the place of tensors, which are told by ``places`` and ``tensors``."""
    if isinstance(stored, torch.Tensor):
        if isinstance(stored, DTensor) and not all(placement.is_replicate() for placement in stored.placements):
            raise StateError(
                f"state {said((name, *place))} is a sharded DTensor, spread over ranks: it cannot be PerRank"
            )
        places.append(place)
        tensors.append(stored.to_local() if isinstance(stored, DTensor) else stored)
        return None
    if isinstance(stored, dict):
        return {key: _without_tensors(item, (*place, key), places, tensors, name) for key, item in stored.items()}
    if isinstance(stored, list):
        return [_without_tensors(item, (*place, i), places, tensors, name) for i, item in enumerate(stored)]
    return stored
