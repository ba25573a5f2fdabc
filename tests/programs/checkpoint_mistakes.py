"""For a crew: mistakes that only ranks together can make. Each function returns the sentence that a rank gets."""

from __future__ import annotations

from typing import Any

from torch import nn

from elaunch.checkpoint import Checkpointer, ElasticSampler
from elaunch.errors import CheckpointError, StateError


def another_shape(rank: int, world: int, told: dict[str, Any]) -> str:
    return _save(told, {"model": nn.Linear(2, 2 + rank)})


def another_name(rank: int, world: int, told: dict[str, Any]) -> str:
    return _save(told, {"model": nn.Linear(2, 2), f"n{rank}": {}})


def another_step(rank: int, world: int, told: dict[str, Any]) -> str:
    return _save(told, {"model": nn.Linear(2, 2)}, 1 + rank)


def another_batch(rank: int, world: int, told: dict[str, Any]) -> str:
    """A loop in which rank 1 has come a sample further."""
    sampler = ElasticSampler(9, rank=rank, world=world)
    for seen, _ in enumerate(sampler):
        if seen == 1 + rank:
            return _save(told, {"data": sampler})
    raise AssertionError("the epoch was shorter")


def on_rank_0_alone(rank: int, world: int, told: dict[str, Any]) -> str:
    checkpointer = Checkpointer(told["path"], {"model": nn.Linear(2, 2)}, timeout=1)
    try:
        if rank == 0:
            checkpointer.save(1)
    except CheckpointError as error:
        return str(error)
    finally:
        checkpointer.close()
    return ""


def _save(told: dict[str, Any], state: dict[str, Any], step: int = 1) -> str:
    with Checkpointer(told["path"], state, timeout=20) as checkpointer:
        try:
            checkpointer.save(step)
        except StateError as error:
            return str(error)
    return ""
