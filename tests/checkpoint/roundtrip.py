"""Objects saved to stock DCP's files and put into others, in one process."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from elaunch.checkpoint.state.saved import Saved, saved_keys
from elaunch.checkpoint.state.states import States


def save(objects: Mapping[str, object], path: Path) -> dict[str, Saved]:
    """Save, and say what the checkpoint holds."""
    return save_dict(States(objects, rank=0, world=1).collect(), path)


def save_dict(state: dict[str, Any], path: Path) -> dict[str, Saved]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=path, no_dist=True)
    return saved_keys(dcp.FileSystemReader(path).read_metadata())


def restore(
    objects: Mapping[str, object],
    path: Path,
    *,
    rank: int = 0,
    world: int = 1,
    saved_world: int = 1,
    partial: bool = False,
) -> dict[str, Any]:
    """Restore, reading every value under ``weights_only``; returns what the names stand for then."""
    states = States(objects, rank=rank, world=world)
    saved = saved_keys(dcp.FileSystemReader(path).read_metadata())
    targets = states.targets(saved, saved_world, partial=partial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(targets, checkpoint_id=path, planner=_Safe(), no_dist=True)
    states.adopt(targets)
    return states.values


class _Safe(dcp.DefaultLoadPlanner):
    def load_bytes(self, read_item: Any, value: Any) -> None:
        self.original_state_dict[read_item.dest_index.fqn] = torch.load(value, weights_only=True)
