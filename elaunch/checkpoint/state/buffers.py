"""Buffers of modules, such as BatchNorm's statistics, of which each rank may have come to another value.

They are stored once, all of them from the lowest rank that has them, which is also whose DDP gives to the others. Where
no DDP makes them equal, those that were changed since the ranks began are stored for each rank as well: a restore into
a world of the same size gives each rank its own. In another world all go on with the lowest rank's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from elaunch.checkpoint.state.digest import digest
from elaunch.checkpoint.state.modules import unwrapped
from elaunch.checkpoint.state.per_rank import PerRank, PerRankPart, root_of
from elaunch.checkpoint.state.saved import Saved

_SMALL = 1 << 14  # bytes
Mark = tuple[object, object]


def buffers_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Those that are saved and whole on each rank, by their names without wrappers."""
    return {
        unwrapped(module, f"{path}.{name}".removeprefix(".")): value.detach()
        for path, child in module.named_modules(remove_duplicate=False)
        for name, value in child._buffers.items()
        if value is not None and name not in child._non_persistent_buffers_set and not isinstance(value, DTensor)
    }


class OwnBuffers:
    """The buffers that this rank has changed by itself."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._equalised = _equalised(module)
        self._own: set[str] = set()
        self._marks = self._marked()

    def state_dict(self) -> dict[str, torch.Tensor]:
        self._own |= {name for name, mark in self._marked().items() if mark != self._marks.get(name)}
        return {name: value for name, value in buffers_of(self._module).items() if name in self._own}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        here = buffers_of(self._module)
        for name, value in state.items():
            here[name].copy_(value)
        self._own = set(state)

    def settle(self, own: bool) -> None:
        """All ranks have just been given the same ones, or each its ``own``: what is changed from now on counts."""
        self._own = self._own if own else set()
        self._marks = self._marked()

    def _marked(self) -> dict[str, Mark]:
        """What tells whether one was changed, of those that are not yet known to be."""
        return {
            name: _mark(value)
            for name, value in buffers_of(self._module).items()
            if name not in self._own and not name.startswith(self._equalised)
        }


class BuffersPart(PerRankPart):
    """The own buffers of the module ``name`` on ``rank``."""

    def __init__(self, name: str, module: nn.Module, rank: int, world: int) -> None:
        self._buffers = OwnBuffers(module)
        self._alone = world == 1
        super().__init__(f"{name}.buffers", PerRank(self._buffers), rank, world)

    def collect(self) -> dict[str, Any]:
        return super().collect() if not self._alone and self._buffers.state_dict() else {}

    def is_in(self, roots: Mapping[str, Mapping[str, Saved]]) -> bool:
        return root_of(self.name, self._rank) in roots

    def targets(self, roots: Mapping[str, dict[str, Saved]], saved_world: int) -> dict[str, Any]:
        self._roots = []
        return super().targets(roots, saved_world) if saved_world == self._world else {}

    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None:
        if self._roots:
            super().adopt(loaded, saved_world)

    def settle(self) -> None:
        """The state of the module has been restored."""
        self._buffers.settle(bool(self._roots))


def _mark(value: torch.Tensor) -> Mark:
    """A digest of a small one, for torch does not count what BatchNorm writes; else which it is, and torch's count."""
    if value.numel() * value.element_size() <= _SMALL and not value.is_meta:
        return value.dtype, digest(value.to_local() if isinstance(value, DTensor) else value)
    return value.data_ptr(), 0 if value.is_inference() else value._version


def _equalised(module: nn.Module) -> tuple[str, ...]:
    """What the names of the buffers begin with that DDP sends around before each forward."""
    return tuple(
        f"{unwrapped(module, name)}.".removeprefix(".")
        for name, child in module.named_modules()
        if isinstance(child, DistributedDataParallel) and child.broadcast_buffers
    )
