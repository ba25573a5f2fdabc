"""Optimizers: states by the names of parameters, whatever has a state, and options to the group they belong to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from elaunch.checkpoint.state.states import States
from elaunch.errors import StateError
from tests.checkpoint.roundtrip import restore, save, save_dict

pytestmark = pytest.mark.torch
Make = Callable[[Any], torch.optim.Optimizer]


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2, first: int = 0) -> None:
    for step in range(first, first + steps):
        batch = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))

        def closure(batch: torch.Tensor = batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def same(one: torch.optim.Optimizer, other: torch.optim.Optimizer) -> None:
    """In every entry of the states and options."""
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


OPTIMIZERS: dict[str, Make] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adamw amsgrad, lr a tensor": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
    "sgd momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adafactor": lambda p: torch.optim.Adafactor(p),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "rprop": lambda p: torch.optim.Rprop(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "radam": lambda p: torch.optim.RAdam(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 2])
def test_training_goes_on_bit_for_bit(name: str, steps: int, tmp_path: Path) -> None:
    one, other = net(0), net(1)
    optimizer, resumed = OPTIMIZERS[name](one.parameters()), OPTIMIZERS[name](other.parameters())
    train(one, optimizer, steps)
    save({"m": one, "o": optimizer}, tmp_path)
    train(other, resumed, 1)  # into one that has a state of its own
    restore({"m": other, "o": resumed}, tmp_path)
    same(optimizer, resumed)
    train(one, optimizer, first=steps)
    train(other, resumed, first=steps)
    same(optimizer, resumed)
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["plain", "fsdp"])
def test_keys_are_those_of_stock(kind: str, mesh: DeviceMesh) -> None:
    model = net()
    if kind == "fsdp":
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(
        [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters()), "lr": 1.0}]
    )
    train(model, optimizer)
    ours = States({"m": model, "o": optimizer}, rank=0, world=1).collect()
    stock = get_optimizer_state_dict(model, optimizer)
    torch.testing.assert_close(ours["o"]["state"], stock["state"], rtol=0, atol=0)
    assert ours["o"]["param_groups"] == stock["param_groups"]
    assert ours.keys() == {"m", "o"}  # nothing beside


@pytest.mark.parametrize("flat", [False, True])
def test_what_stock_wrote_is_read(flat: bool, tmp_path: Path) -> None:
    model, other = net(), net(1)
    optimizer, resumed = OPTIMIZERS["adamw"](model.parameters()), OPTIMIZERS["adamw"](other.parameters())
    train(model, optimizer)
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    save_dict({"o": get_optimizer_state_dict(model, optimizer, options=options), "m": model.state_dict()}, tmp_path)
    restore({"m": other, "o": resumed}, tmp_path)
    same(optimizer, resumed)


def test_parameters_without_a_state(tmp_path: Path) -> None:
    def make(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = net(seed)
        model.unused = nn.Parameter(torch.ones(2))
        model.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        groups = [{"params": []}, {"params": list(model.parameters())}, {"params": [], "lr": 0.5}]
        return model, torch.optim.AdamW(groups, lr=0.1)

    (model, optimizer), (other, resumed) = make(0), make(1)
    train(model, optimizer)
    optimizer.param_groups[2]["lr"] = 0.25
    save({"m": model, "o": optimizer}, tmp_path)
    restore({"m": other, "o": resumed}, tmp_path)
    same(optimizer, resumed)
    assert resumed.param_groups[2]["lr"] == 0.25
    assert len(resumed.state) == 4


def test_several_optimizers_of_one_module_and_one_of_several(tmp_path: Path) -> None:
    def make(seed: int) -> dict[str, Any]:
        a, b, alone = net(seed), net(seed + 1), nn.Parameter(torch.full((), float(seed)))
        both = torch.optim.AdamW([*a[0].parameters(), *b.parameters(), alone])
        return {"a": a, "b": b, "t": alone, "one": torch.optim.SGD(a[2].parameters(), momentum=0.5), "both": both}

    objects, others = make(0), make(5)
    for step in range(2):
        objects["one"].zero_grad()
        objects["both"].zero_grad()
        ((objects["a"](torch.ones(2, 3)) + objects["b"](torch.ones(2, 3))) * objects["t"] + step).sum().backward()
        objects["one"].step()
        objects["both"].step()
    saved = save(objects, tmp_path)
    restore(others, tmp_path)
    same(objects["one"], others["one"])
    same(objects["both"], others["both"])
    assert objects["t"] == others["t"]
    assert {
        "one.state.2.weight.momentum_buffer",
        "both.state.a.0.weight.exp_avg",
        "both.state.t.exp_avg",
    } <= saved.keys()


def test_states_keep_their_precision(tmp_path: Path) -> None:
    """torch's load_state_dict would cast a state in float32 to the bfloat16 of its parameter."""

    class Precise(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter] = {"m": torch.full(parameter.shape, 1.001), "deep": {"m": torch.tensor([1.001])}}

    model = net().to(torch.bfloat16)
    optimizer = Precise(model.parameters())
    optimizer.step()
    save({"m": model, "o": optimizer}, tmp_path)
    resumed = Precise(model.parameters())
    restore({"m": model, "o": resumed}, tmp_path)
    same(optimizer, resumed)


def test_states_with_numbers_for_keys_and_with_nothing_in_them(tmp_path: Path) -> None:
    class Odd(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            first, second, *_ = self.param_groups[0]["params"]
            self.state[first] = {"blocks": {0: {"q": torch.ones(2)}, 1: {}}, "pair": (1, torch.ones(1)), "n": None}
            self.state[second] = {}

    model = net()
    optimizer, resumed = Odd(model.parameters()), Odd(model.parameters())
    optimizer.step()
    save({"m": model, "o": optimizer}, tmp_path)
    restore({"m": model, "o": resumed}, tmp_path)
    same(optimizer, resumed)
    state = resumed.state[model[0].weight]
    assert state["blocks"].keys() == {0, 1}
    assert type(state["pair"]) is tuple


def test_the_order_of_parameters_may_change(tmp_path: Path) -> None:
    model, other = net(), net(1)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    save({"m": model, "o": optimizer}, tmp_path)
    resumed = torch.optim.AdamW(reversed(list(other.parameters())))
    restore({"m": other, "o": resumed}, tmp_path)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(optimizer.state[one]["exp_avg"], resumed.state[two]["exp_avg"])


def test_options_that_were_not_saved_stay(tmp_path: Path) -> None:
    model = net()
    save({"m": model, "o": torch.optim.SGD(model.parameters(), lr=0.1)}, tmp_path)
    resumed = torch.optim.SGD(model.parameters(), lr=0.5)
    torch.optim.lr_scheduler.StepLR(resumed, 1)
    restore({"m": model, "o": resumed}, tmp_path)
    assert resumed.param_groups[0]["lr"] == 0.1
    assert resumed.param_groups[0]["initial_lr"] == 0.5


def test_a_sharded_parameter_has_a_sharded_state(mesh: DeviceMesh, tmp_path: Path) -> None:
    model, other = net(), fully_shard(net(1), mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    save({"m": model, "o": optimizer}, tmp_path)
    resumed = torch.optim.AdamW(other.parameters())
    restore({"m": other, "o": resumed}, tmp_path)
    for parameter, state in resumed.state.items():
        assert isinstance(state["exp_avg"], DTensor)
        assert state["exp_avg"].placements == parameter.placements
        assert not isinstance(state["step"], DTensor)
    train(other, resumed, first=2)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    model = net()
    first, second, *rest = model.parameters()
    optimizer = torch.optim.SGD([{"params": [first, second]}, {"params": rest, "lr": 0.5}], lr=0.1)
    save({"m": model, "o": optimizer}, tmp_path)
    for groups, said in [
        ([first, second], r"holds '2\.bias', '2\.weight', which it does not have now"),
        ([first, second, *rest], r"holds '0\.weight' and '2\.weight', which were saved in groups with different"),
    ]:
        with pytest.raises(StateError, match=said):
            restore({"m": model, "o": torch.optim.SGD(groups, lr=0.1)}, tmp_path)
    # One group was made two, or options were the same: nothing is unclear.
    resumed = torch.optim.SGD([{"params": [p]} for p in (first, second, *rest)], lr=0.1)
    restore({"m": model, "o": resumed}, tmp_path)
    assert [group["lr"] for group in resumed.param_groups] == [0.1, 0.1, 0.5, 0.5]


def test_a_parameter_that_was_not_saved_is_named(tmp_path: Path) -> None:
    model = net()
    save({"m": model, "o": torch.optim.SGD(model[0].parameters(), lr=0.1)}, tmp_path)
    with pytest.raises(
        StateError, match=r"optimizer 'o' has '2\.bias', '2\.weight', which the checkpoint of it does not"
    ):
        restore({"m": model, "o": torch.optim.SGD(model.parameters(), lr=0.1)}, tmp_path)


def test_parameters_of_no_module_are_refused() -> None:
    optimizer = torch.optim.SGD(net().parameters())
    with pytest.raises(StateError, match=r"parameter 0 of optimizer 'o', of shape \(4, 3\), belongs to no module"):
        States({"m": net(), "o": optimizer}, rank=0, world=1).collect()
