"""How a state is taken from one of the program's objects, and put back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch

from elaunch.errors import StateError


def state_of(held: Any) -> Any:
    """The state of an object: its ``state_dict()`` if it has one, else the dict, tensor, generator or value itself."""
    if callable(getattr(held, "state_dict", None)):
        return held.state_dict()
    return held.get_state() if isinstance(held, torch.Generator) else held


def put(name: str, held: Any, state: Any) -> Any:
    """Put ``state`` into ``held``; returns what holds it then: ``held``, but for plain values, which hold nothing.

    A dict takes the saved keys and keeps those it has besides; dicts within it become as they were saved, and tensors
    that fit are written in place. Lists and sets become as they were saved, and arrays take the saved numbers.

    Raises:
        StateError: a tensor has another shape than the saved one, or the object takes no state.
    """
    if callable(getattr(held, "load_state_dict", None)):
        held.load_state_dict(state)
        return held
    if hasattr(held, "state_dict"):
        raise StateError(f"state {name!r} is a {type(held).__qualname__}, which has state_dict, and no load_state_dict")
    with torch.no_grad():
        return _put_into(name, held, state)


def _put_into(name: str, held: Any, state: Any) -> Any:
    if isinstance(held, torch.Generator):
        held.set_state(state)
    elif isinstance(held, torch.Tensor):
        if not isinstance(state, torch.Tensor) or state.shape != held.shape:
            saved = (
                f"a tensor of shape {tuple(state.shape)}" if isinstance(state, torch.Tensor) else type(state).__name__
            )
            raise StateError(f"state {name!r} is a tensor of shape {tuple(held.shape)}, the checkpoint holds {saved}")
        held.copy_(state)
    elif isinstance(held, MutableMapping) and isinstance(state, Mapping):
        _fill(held, state)
    elif isinstance(held, list) and isinstance(state, list):
        held[:] = state
    elif isinstance(held, set) and isinstance(state, set):
        held.clear()
        held.update(state)
    elif _is_array(held) and _is_array(state):
        if held.shape != state.shape:
            raise StateError(f"state {name!r} is an array of shape {held.shape}, the checkpoint holds {state.shape}")
        held[...] = state
    else:
        return state
    return held


def _is_array(held: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(held, numpy.ndarray)


def _fill(held: MutableMapping[Any, Any], state: Mapping[Any, Any]) -> None:
    for key, item in state.items():
        held[key] = _merged(held[key], item) if key in held else item


def _merged(held: Any, state: Any) -> Any:
    if isinstance(held, dict) and type(held) is type(state):
        for key in held.keys() - state.keys():
            del held[key]
        _fill(held, state)
        return held
    if isinstance(held, torch.Tensor) and isinstance(state, torch.Tensor):
        if held.shape == state.shape and held.dtype == state.dtype:
            held.copy_(state)
            return held
        return state.to(held.device)
    return state
