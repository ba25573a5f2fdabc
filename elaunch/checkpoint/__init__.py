"""Checkpoints: saved behind the training, committed as one step, restored into whatever world is left.

For programs (docs/checkpoints.md): ``Checkpointer``, ``PerRank``, ``RNG``, ``ElasticSampler``. They need torch, and are
loaded when they are first used: a launcher that reads manifests can do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.checkpoint.checkpointer import Checkpointer
    from elaunch.checkpoint.state.per_rank import PerRank
    from elaunch.checkpoint.state.rng import RNG
    from elaunch.checkpoint.state.sampler import ElasticSampler

__all__ = ["RNG", "Checkpointer", "ElasticSampler", "PerRank"]

_WHERE = {
    "Checkpointer": "checkpointer",
    "PerRank": "state.per_rank",
    "RNG": "state.rng",
    "ElasticSampler": "state.sampler",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
