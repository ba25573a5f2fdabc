"""Buffers in which ranks differ: one rank's set is stored for all, and each rank's own for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint import DefaultSavePlanner

from elaunch.checkpoint.collective import planning, plans
from elaunch.checkpoint.state.buffers import OwnBuffers
from elaunch.checkpoint.state.states import States

pytestmark = pytest.mark.torch


def network() -> nn.Module:
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    made.register_buffer("mask", torch.ones(100, 100))
    made.register_buffer("scratch", torch.ones(2), persistent=False)
    return made


def own(state: dict[str, Any], rank: int) -> dict[str, Any]:
    return state.get(f"elaunch.per_rank.{rank}.model.buffers", {})  # type: ignore[no-any-return]


def test_what_a_rank_has_changed_is_stored_for_itself() -> None:
    module = network()
    states = States({"model": module}, rank=1, world=2)
    assert own(states.collect(), 1) == {}
    module(torch.randn(5, 3))
    assert len(own(states.collect(), 1)["tensors"]) == 3, "mean, variance, number of batches"
    module.mask += 1  # type: ignore[operator, assignment]
    assert len(own(states.collect(), 1)["tensors"]) == 4
    assert own(States({"model": network()}, rank=0, world=1).collect(), 0) == {}


def test_the_shared_ones_are_all_of_the_lowest_rank_that_has_them() -> None:
    told, mixed = [], []
    for rank in range(3):
        module = network() if rank else nn.Linear(3, 4)
        module(torch.randn(5, 3))
        states = States({"model": module}, rank=rank, world=3)
        plan = planning.describe(states.collect(), states.of_lowest())
        local = replace(plan.planner().create_local_plan(), planner_data=plan.paths)
        told.append(plans.decode(plans.encode(local, plan.lowest)))
        mixed.append(local)
    buffers = {"model.mask", "model.1.running_mean", "model.1.running_var", "model.1.num_batches_tracked"}
    shares, metadata = DefaultSavePlanner().create_global_plan(plans.of_lowest(told))
    by_rank = [{item.index.fqn for item in share.items} & buffers for share in shares]
    assert by_rank == [set(), buffers, set()]
    assert buffers <= metadata.state_dict_metadata.keys()
    shares, _ = DefaultSavePlanner().create_global_plan(mixed)
    assert {item.index.fqn for item in shares[2].items} & buffers, "torch alone would take some of each"


def test_a_buffer_that_is_a_lazy_negative_or_conjugate_is_looked_at_as_well() -> None:
    module = nn.Module()
    module.register_buffer("n", torch._neg_view(torch.ones(3)))
    module.register_buffer("c", torch.ones(2, dtype=torch.complex64).conj())
    buffers = OwnBuffers(module)
    assert not buffers.state_dict()
    module.n.fill_(5)  # type: ignore[operator]
    assert set(buffers.state_dict()) == {"n"}
