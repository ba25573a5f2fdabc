"""The state of modules: plain, or under DDP, FSDP2, tensor parallelism, torch.compile or activation checkpointing.

Keys are those of ``torch.distributed.checkpoint.state_dict.get_model_state_dict``: the names in the unwrapped module,
so that a checkpoint fits the same module under any wrapper. It is not called, since it does not manage modules without
a state, nor a submodule that stands at two places of a module under DDP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DataParallel, DistributedDataParallel

from elaunch.checkpoint.state.saved import Saved, nested
from elaunch.checkpoint.state.shared import saved_shape, shape_entry, shape_root
from elaunch.checkpoint.state.tree import Shape, alike, decode, encode, stored_tensor
from elaunch.errors import StateError

_INSIDE = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})
_ADVICE = "restore into the module it was saved from, or fill this one from the file that `elaunch ckpt export` writes"
_SHOWN = 4  # names of keys in an error


class ModulePart:
    """The state of ``module``, named ``name``."""

    def __init__(self, name: str, module: nn.Module) -> None:
        if any(isinstance(child, FullyShardedDataParallel) for child in module.modules()):
            raise StateError(
                f"state {name!r} is wrapped in FullyShardedDataParallel, whose flat parameters do not fit another "
                "world; use torch.distributed.fsdp.fully_shard"
            )
        self.name = name
        self.value = module
        self._roots: Mapping[str, dict[str, Saved]] = {}

    def collect(self) -> dict[str, Any]:
        stored: dict[str, Any] = {}
        shapes: dict[str, Shape] = {}
        for name, value in self._state().items():
            path = (self.name, name)
            if isinstance(value, torch.Tensor):
                stored[name] = stored_tensor(value, path)
            else:
                stored[name], shapes[name] = encode(value, path)
        # With no state at all, that there is none must be told by something.
        return {self.name: stored, **(shape_entry(self.name, shapes) if shapes or not stored else {})}

    def shared_values(self) -> dict[str, bytes]:
        return {}

    def is_in(self, roots: Mapping[str, Mapping[str, Saved]]) -> bool:
        return self.name in roots or shape_root(self.name) in roots

    def targets(self, roots: Mapping[str, dict[str, Saved]], saved_world: int) -> dict[str, Any]:
        self._roots = roots
        state = self._state()
        entries = roots.get(self.name, {})
        self._compare(state, entries)
        made = {key: self._target(saved, state[str(saved.path[1])]) for key, saved in entries.items()}
        return {**made, **dict.fromkeys(roots.get(shape_root(self.name), ()))}

    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None:
        shapes = saved_shape(self.name, self._roots, loaded) or {}
        groups: dict[str, list[tuple[tuple[str | int, ...], Any]]] = {name: [] for name in shapes}
        for key, saved in self._roots.get(self.name, {}).items():
            groups.setdefault(str(saved.path[1]), []).append((saved.path[2:], loaded[key]))
        read = {name: nested(items) for name, items in groups.items()}
        state = {}
        for raw, value in self.value.state_dict().items():
            name = unwrapped(self.value, raw)
            if isinstance(value, torch.Tensor):
                state[raw] = read[name]
            else:
                state[raw] = decode(read[name], shapes[name]) if name in shapes else alike(read[name], value)
        self.value.load_state_dict(state)

    def _state(self) -> dict[str, Any]:
        return {unwrapped(self.value, raw): value for raw, value in self.value.state_dict().items()}

    def _compare(self, state: Mapping[str, Any], entries: Mapping[str, Saved]) -> None:
        saved = {str(entry.path[1]) for entry in entries.values() if len(entry.path) > 1}
        lacking = [name for name, value in state.items() if name not in saved and isinstance(value, torch.Tensor)]
        left_over = [name for name in saved if name not in state]
        if lacking:
            raise StateError(
                f"module {self.name!r} has {listed(lacking)}, which the checkpoint of it does not hold; {_ADVICE}"
            )
        if left_over:
            raise StateError(
                f"the checkpoint of module {self.name!r} holds {listed(left_over)}, which it does not have; {_ADVICE}"
            )

    def _target(self, saved: Saved, now: Any) -> Any:
        """The parameter or buffer itself, for no model is held twice; what must be converted is read elsewhere."""
        if not saved.is_tensor or not isinstance(now, torch.Tensor):
            return torch.empty(saved.size, dtype=saved.dtype) if saved.is_tensor else None
        if now.device.type == "meta":
            raise StateError(f"module {self.name!r} is on the meta device; give it memory (to_empty) first")
        if tuple(now.shape) != saved.size:
            raise StateError(
                f"{saved.path[1]!r} of module {self.name!r} has shape {tuple(now.shape)}, was saved with {saved.size}; "
                f"{_ADVICE}"
            )
        now = now.detach()
        return now if now.dtype == saved.dtype else torch.zeros_like(now, dtype=saved.dtype)


def unwrapped(module: nn.Module, key: str) -> str:
    """``key`` of the module's state or parameters as it is named without wrappers."""
    steps: list[str] = []
    at: Any = module
    for step in key.split("."):
        inside = step in _INSIDE or (step == "module" and isinstance(at, DistributedDataParallel | DataParallel))
        if not inside:
            steps.append(step)
        at = getattr(at, step, None)
    return ".".join(steps)


def parameter_names(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The names of all parameters without wrappers; a tied one comes under each of its names."""
    for name, parameter in module.named_parameters(remove_duplicate=False):
        yield unwrapped(module, name), parameter


def listed(names: Iterable[str]) -> str:
    """The first few of many names."""
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def is_sharded(tensor: Any) -> bool:
    """Do ranks hold different parts of it?"""
    return isinstance(tensor, DTensor) and not all(placement.is_replicate() for placement in tensor.placements)
