"""Modules: names without wrappers, everything of their state, and a clear word where a checkpoint does not fit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from elaunch.checkpoint.state.modules import parameter_names
from elaunch.checkpoint.state.states import States
from elaunch.errors import StateError
from tests.checkpoint.roundtrip import restore, save, save_dict

pytestmark = pytest.mark.torch


class Extra(nn.Module):
    def __init__(self, kept: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.kept = kept

    def get_extra_state(self) -> Any:
        return self.kept

    def set_extra_state(self, state: Any) -> None:
        self.kept = state


class Shared(nn.Module):
    """One submodule at two places, and a weight tied to another."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = self.one
        self.three = nn.Linear(3, 3, bias=False)
        self.three.weight = self.one.weight
        self.scalar = nn.Parameter(torch.tensor(2.0))
        self.empty = nn.Parameter(torch.empty(0, 2))
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("passing", torch.arange(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.three(self.two(self.one(x))) * self.scalar


def filled(module: nn.Module, value: float) -> nn.Module:
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.fill_(value)
    return module


def wrappings(mesh: DeviceMesh) -> dict[str, nn.Module]:
    def inner() -> nn.Module:
        return nn.Sequential(Shared(), nn.BatchNorm1d(3))

    sharded: Any = inner()
    fully_shard(sharded, mesh=mesh, ignored_params={sharded[0].scalar})  # it shards no scalars
    wrapped_inside = inner()
    wrapped_inside[0] = checkpoint_wrapper(wrapped_inside[0])
    return {
        "plain": inner(),
        "ddp": DistributedDataParallel(inner()),
        "fsdp": sharded,
        "compiled": torch.compile(inner()),
        "ddp of compiled": DistributedDataParallel(torch.compile(inner())),
        "checkpointed": wrapped_inside,
    }


@pytest.mark.slow  # torch.compile is
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_names_are_those_of_stock_and_fit_every_wrapper(mesh: DeviceMesh, tmp_path: Path) -> None:
    saved = save({"m": filled(nn.Sequential(Shared(), nn.BatchNorm1d(3)), 3.0)}, tmp_path / "plain")
    names = {str(entry.path[1]) for entry in saved.values()}
    assert {
        "0.one.weight",
        "0.two.weight",
        "0.three.weight",
        "0.scalar",
        "0.empty",
        "0.kept",
        "1.running_mean",
    } <= names
    for kind, module in wrappings(mesh).items():
        filled(module, 4.0)
        state = States({"m": module}, rank=0, world=1).collect()["m"]
        assert state.keys() == names, kind
        assert state.keys() == get_model_state_dict(module).keys(), kind
        assert {name for name, _ in parameter_names(module)} <= names, kind
        assert isinstance(state["0.one.weight"], DTensor) == (kind == "fsdp")
        restore({"m": module}, tmp_path / "plain")
        assert all(
            (tensor == 3.0).all() for tensor in States({"m": module}, rank=0, world=1).collect()["m"].values()
        ), kind
        save({"m": module}, tmp_path / kind)
        back = filled(nn.Sequential(Shared(), nn.BatchNorm1d(3)), 5.0)
        restore({"m": back}, tmp_path / kind)
        assert all((tensor == 3.0).all() for tensor in back.state_dict().values()), kind


def test_the_state_is_the_live_tensors_and_is_loaded_in_place(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    assert States({"m": module}, rank=0, world=1).collect()["m"]["weight"].data_ptr() == module.weight.data_ptr()
    saved = save({"m": module}, tmp_path)
    targets = States({"m": module}, rank=0, world=1).targets(saved, 1)
    assert targets["m.weight"].data_ptr() == module.weight.data_ptr()


@pytest.mark.parametrize("kept", [None, 3, {"a": {1: torch.ones(2)}, "b": {}}, torch.ones(3), io.BytesIO(b"x"), {}, []])
def test_extra_state(kept: Any, tmp_path: Path) -> None:
    save({"m": nn.Sequential(Extra(kept))}, tmp_path)
    module = nn.Sequential(Extra())
    restore({"m": module}, tmp_path)
    found = module[0].kept  # type: ignore[union-attr]
    if isinstance(kept, io.BytesIO):
        found, kept = found.getvalue(), kept.getvalue()
    assert type(found) is type(kept)
    assert str(found) == str(kept)


def test_extra_state_that_runs_code_is_refused() -> None:
    with pytest.raises(StateError, match=r"state 'm\._extra_state' holds a builtins\.object"):
        States({"m": Extra(object())}, rank=0, world=1).collect()


def test_modules_without_a_state(tmp_path: Path) -> None:
    save({"loss": nn.MSELoss(), "n": 1}, tmp_path)
    restore({"loss": nn.MSELoss(), "n": 0}, tmp_path)


def test_another_type_is_converted(tmp_path: Path) -> None:
    save({"m": filled(nn.Linear(2, 2), 1.5)}, tmp_path)
    module = nn.Linear(2, 2).to(torch.bfloat16)
    restore({"m": module}, tmp_path)
    assert module.weight.dtype == torch.bfloat16
    assert (module.weight == 1.5).all()


def test_after_a_forward_the_sharded_state_is_found(mesh: DeviceMesh, tmp_path: Path) -> None:
    module = fully_shard(nn.Sequential(nn.Linear(2, 2)), mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.SGD(module.parameters(), momentum=0.9)
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    module(torch.ones(1, 2))
    state = States({"m": module, "o": optimizer}, rank=0, world=1).collect()
    assert isinstance(state["m"]["0.weight"], DTensor)
    assert isinstance(state["o"]["state"]["0.weight"]["momentum_buffer"], DTensor)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    saved = save({"m": nn.Linear(2, 2)}, tmp_path)
    for module, said in [
        (nn.Linear(2, 3), r"'weight' of module 'm' has shape \(3, 2\), was saved with \(2, 2\)"),
        (nn.Linear(2, 2, bias=False), "holds 'bias', which it does not have"),
        (nn.Sequential(nn.Linear(2, 2)), r"module 'm' has '0\.bias', '0\.weight', which the checkpoint of it does not"),
        (nn.Linear(2, 2, device="meta"), "to_empty"),
    ]:
        with pytest.raises(StateError, match=said):
            States({"m": module}, rank=0, world=1).targets(saved, 1)
    with pytest.raises(StateError, match="holds no state 'x'; it holds 'm'"):
        States({"x": nn.Linear(2, 2)}, rank=0, world=1).targets(saved, 1)
    assert States({"x": nn.Linear(2, 2)}, rank=0, world=1).targets(saved, 1, partial=True) == {}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_fsdp1_is_refused(mesh: DeviceMesh) -> None:
    with pytest.raises(StateError, match="fully_shard"):
        States({"m": FullyShardedDataParallel(nn.Linear(2, 2), device_id=torch.device("cpu"))}, rank=0, world=1)


def test_a_checkpoint_of_plain_save_is_read(tmp_path: Path) -> None:
    save_dict({"m": filled(nn.Linear(2, 2), 2.0).state_dict()}, tmp_path)
    module = nn.Linear(2, 2)
    restore({"m": module}, tmp_path)
    assert (module.weight == 2).all()
