"""State that all ranks have alike, and that is stored once: schedulers, gradient scalers, dicts, numbers, samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.tensor import DTensor

from elaunch.checkpoint.state.digest import digest
from elaunch.checkpoint.state.holders import put, state_of
from elaunch.checkpoint.state.saved import Path, Saved, nested
from elaunch.checkpoint.state.tree import Shape, alike, decode, encode
from elaunch.errors import StateError

_ROOT = "elaunch.shape"


def shape_root(name: str) -> str:
    """The top-level key of the checkpoint under which the shape of a state stands."""
    return f"{_ROOT}.{name}"


def shape_entry(name: str, shape: Shape) -> dict[str, Any]:
    """A shape as it is stored: in a tuple, so that it is not taken apart."""
    return {shape_root(name): (shape,)}


def saved_shape(name: str, roots: Mapping[str, Mapping[str, Saved]], loaded: Mapping[str, Any]) -> Shape | None:
    """The shape that was saved with ``name``; None where stock code wrote the checkpoint."""
    for key in roots.get(shape_root(name), ()):
        (shape,) = loaded[key]
        return shape
    return None


class SharedPart:
    """The state named ``name``, equal on all ranks."""

    def __init__(self, name: str, held: object) -> None:
        self.name = name
        self.value = held
        self._roots: Mapping[str, dict[str, Saved]] = {}
        self._now: Any = None

    def collect(self) -> dict[str, Any]:
        stored, shape = encode(state_of(self.value), (self.name,))
        try:
            flatten_state_dict({self.name: stored})
        except ValueError as error:  # {"a.b": 1, "a": {"b": 2}}
            raise StateError(f"two values of state {self.name!r} have one key ({error}); rename one") from error
        return {self.name: stored, **shape_entry(self.name, shape)}

    def shared_values(self) -> dict[str, bytes]:
        stored, shape = encode(state_of(self.value), (self.name,))
        return {self.name: digest((stored, _unordered(shape)))}

    def is_in(self, roots: Mapping[str, Mapping[str, Saved]]) -> bool:
        return self.name in roots or shape_root(self.name) in roots

    def targets(self, roots: Mapping[str, dict[str, Saved]], saved_world: int) -> dict[str, Any]:
        self._roots, entries = roots, roots.get(self.name, {})
        shapes = roots.get(shape_root(self.name), {})
        by_stock = not shapes
        # Not asked for without need: some loaders start their workers to tell their state.
        self._now = state_of(self.value) if by_stock or any(saved.is_tensor for saved in entries.values()) else None
        tensors = _tensors(self._now)
        made = {key: _target(saved, tensors.get(saved.path[1:])) for key, saved in entries.items()}
        return {**made, **dict.fromkeys(shapes)}

    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None:
        entries = self._roots.get(self.name, {})
        stored = nested((saved.path[1:], loaded[key]) for key, saved in entries.items())
        shape = saved_shape(self.name, self._roots, loaded)
        state = alike(stored, self._now) if shape is None else decode(stored, shape)
        self._now = None
        self.value = put(self.name, self.value, state)


def _target(saved: Saved, now: Any) -> Any:
    """Memory for one saved value, placed like the tensor that stands there now."""
    if not saved.is_tensor:
        return None
    if isinstance(now, DTensor):
        if tuple(now.shape) != saved.size:
            raise StateError(
                f"state {'.'.join(map(str, saved.path))!r} was saved with shape {saved.size}, and now has "
                f"{tuple(now.shape)}"
            )
        return torch.zeros_like(now.detach(), dtype=saved.dtype)
    return torch.empty(saved.size, dtype=saved.dtype, device=None if now is None else now.device)


def _tensors(state: Any, path: Path = ()) -> dict[Path, Any]:
    if isinstance(state, torch.Tensor):
        return {path: state}
    if isinstance(state, Mapping):
        items: Any = ((str(key), item) for key, item in state.items())
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    else:
        return {}
    return {place: tensor for step, item in items for place, tensor in _tensors(item, (*path, step)).items()}


def _unordered(shape: Shape) -> Any:
    """A shape for comparison between ranks, on which dicts may have been filled in another order."""
    if isinstance(shape, str):
        return shape
    kind, children = shape
    if kind == "dict" or kind == "Counter":
        return kind, {key: _unordered(child) for key, child in children}
    if kind == "OrderedDict":
        return kind, tuple((key, _unordered(child)) for key, child in children)
    return kind, tuple(_unordered(child) for child in children)
