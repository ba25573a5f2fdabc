"""What each rank has for itself is never merged, and moves to another world by a rule only, as random numbers do."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from elaunch.checkpoint.state.per_rank import PerRank, root_of
from elaunch.checkpoint.state.rng import RNG
from elaunch.checkpoint.state.states import States
from elaunch.errors import StateError
from tests.checkpoint.roundtrip import restore, save_dict

pytestmark = pytest.mark.torch


class Position:
    def __init__(self, at: int = -1) -> None:
        self.at = at

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "more": torch.full((self.at + 1,), self.at)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]
        assert state["more"].tolist() == [self.at] * (self.at + 1)


class Movable(Position):
    def reshard_state_dict(self, states: list[dict[str, Any]], rank: int, world: int) -> dict[str, Any]:
        return {"at": 0, "more": torch.zeros(1)} if rank >= len(states) else states[rank]


def save_world(by_rank: list[dict[str, object]], path: Path) -> None:
    """What so many ranks would save together."""
    state: dict[str, Any] = {}
    for rank, objects in enumerate(by_rank):
        state.update(States(objects, rank=rank, world=len(by_rank)).collect())
    save_dict(state, path)


def test_each_rank_its_own(tmp_path: Path) -> None:
    """Tensors of other shapes on each rank, too."""
    save_world([{"data": PerRank(Position(rank)), "d": PerRank({"r": rank})} for rank in range(3)], tmp_path)
    for rank in range(3):
        position, own = Position(), {"r": -1}
        restore({"data": PerRank(position), "d": PerRank(own)}, tmp_path, rank=rank, world=3, saved_world=3)
        assert (position.at, own) == (rank, {"r": rank})


@pytest.mark.parametrize("held", [Position, dict, Movable])
def test_another_world_takes_a_rule(held: type, tmp_path: Path) -> None:
    save_world([{"data": PerRank(Movable(rank))} for rank in range(4)], tmp_path)
    if held is Movable:
        position = Movable()
        restore({"data": PerRank(position)}, tmp_path, rank=1, world=2, saved_world=4)
        assert position.at == 1
        return
    with pytest.raises(
        StateError, match="'data' is per rank and was saved at 4 ranks, now there are 2, and nothing says"
    ):
        restore({"data": PerRank(held())}, tmp_path, rank=0, world=2, saved_world=4)
    given: list[Any] = []

    def reshard(states: list[Any], rank: int, world: int) -> Any:
        given.append(([state["at"] for state in states], rank, world))
        return states[-1]

    restored = restore({"data": PerRank(held(), reshard)}, tmp_path, rank=1, world=2, saved_world=4)["data"]
    assert given == [([0, 1, 2, 3], 1, 2)]
    assert (restored["at"] if isinstance(restored, dict) else restored.at) == 3


def test_a_lacking_rank_and_a_changed_declaration_are_named(tmp_path: Path) -> None:
    save_world([{"data": PerRank({"a": 1})}], tmp_path / "own")
    save_world([{"data": {"a": 1}}], tmp_path / "shared")
    with pytest.raises(StateError, match="checkpoint of 2 ranks lacks the state 'data' of rank 1"):
        restore({"data": PerRank({})}, tmp_path / "own", rank=1, world=2, saved_world=2)
    with pytest.raises(StateError, match=r"saved per rank; declare it: PerRank\(data\)"):
        restore({"data": {}}, tmp_path / "own")
    with pytest.raises(StateError, match="declared PerRank, and was saved once"):
        restore({"data": PerRank({})}, tmp_path / "shared")


def test_what_holds_no_state_of_its_own(tmp_path: Path) -> None:
    """A number is given back; a tensor is written into, a dict updated, each in its place."""
    tensor, inner, gone = torch.zeros(2), torch.zeros(2), torch.zeros(3)
    save_world([{"n": 5, "t": torch.ones(2), "d": {"a": {"t": torch.ones(2), "new": 1}, "s": torch.ones(1)}}], tmp_path)
    numbers, members, generator = [0, 1], {1, 2}, torch.Generator().manual_seed(5)
    save_world([{"l": [3], "s": {4}, "g": generator}], tmp_path / "more")
    drawn = torch.rand(2, generator=generator)
    restore({"l": numbers, "s": members, "g": generator}, tmp_path / "more")
    assert (numbers, members) == ([3], {4})
    assert torch.equal(torch.rand(2, generator=generator), drawn)
    held = {"a": {"t": inner, "old": 2}, "kept": 3, "s": gone}
    values = restore({"n": 0, "t": tensor, "d": held}, tmp_path)
    assert values["n"] == 5
    assert values["t"] is tensor
    assert tensor.tolist() == inner.tolist() == [1, 1]
    assert held["a"] == {"t": inner, "new": 1}
    assert held["a"]["t"] is inner  # type: ignore[index]
    assert held["kept"] == 3
    with pytest.raises(
        StateError, match=r"'t' is a tensor of shape \(3,\), the checkpoint holds a tensor of shape \(2,\)"
    ):
        restore({"t": torch.zeros(3)}, tmp_path)


def test_what_takes_no_state_is_refused(tmp_path: Path) -> None:
    class Teller:
        def state_dict(self) -> dict[str, Any]:
            return {"a": 1}

    save_world([{"t": Teller()}], tmp_path)
    with pytest.raises(StateError, match=r"'t' is a .*Teller, which has state_dict, and no load_state_dict"):
        restore({"t": Teller()}, tmp_path)


def test_schedulers_and_scalers(tmp_path: Path) -> None:
    def make() -> dict[str, Any]:
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
        schedulers = torch.optim.lr_scheduler
        return {
            "model": model,
            "optim": optimizer,
            "scaler": torch.amp.GradScaler("cpu"),
            "off": torch.amp.GradScaler("cpu", enabled=False),
            "multi": schedulers.MultiStepLR(optimizer, [2, 2, 5]),
            "lambda": schedulers.LambdaLR(optimizer, lambda step: 0.9**step),
            "cosine": schedulers.CosineAnnealingWarmRestarts(optimizer, 3),
            "plateau": schedulers.ReduceLROnPlateau(optimizer),
            "one": schedulers.OneCycleLR(optimizer, 1.0, total_steps=9),
            "many": schedulers.SequentialLR(
                optimizer, [schedulers.ConstantLR(optimizer), schedulers.StepLR(optimizer, 1)], [1]
            ),
        }

    objects, others = make(), make()
    objects["model"](torch.ones(1, 2)).sum().backward()
    objects["optim"].step()
    for name in ("multi", "lambda", "cosine", "one", "many"):
        objects[name].step()
    objects["plateau"].step(0.5)
    objects["scaler"]._scale = torch.tensor(8.0)
    save_world([objects], tmp_path)
    restore(others, tmp_path)
    for name in objects.keys() - {"model"}:
        assert str(others[name].state_dict()) == str(objects[name].state_dict()), name
    assert type(others["multi"].milestones) is type(objects["multi"].milestones)


def test_a_scheduler_that_stock_wrote(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    scheduler, other = (torch.optim.lr_scheduler.MultiStepLR(optimizer, steps) for steps in ([2, 3], [2, 9]))
    save_dict({"lr": scheduler.state_dict(), "d": {"a": {}, "n": [{"x": {}, "y": 1}]}}, tmp_path)
    held: dict[str, Any] = {"a": {}, "n": [{"x": {}, "y": 0}]}
    restore({"lr": other, "d": held}, tmp_path)
    assert other.state_dict() == scheduler.state_dict()
    assert held == {"a": {}, "n": [{"x": {}, "y": 1}]}


def draw() -> list[float]:
    return [
        random.random(),
        float(numpy.random.rand()),
        float(torch.rand(())),
        random.gauss(0, 1),
        float(numpy.random.randn()),
    ]


def test_random_numbers_go_on(tmp_path: Path) -> None:
    draw()
    save_world([{"rng": RNG()}], tmp_path)
    expected = draw()
    draw()
    restore({"rng": RNG()}, tmp_path)
    assert draw() == expected


def test_random_numbers_in_another_world(tmp_path: Path) -> None:
    """Old ranks go on, new ones draw what nobody else does, and the same in each restore."""
    states, expected = [], []
    for rank in range(2):
        random.seed(rank)
        numpy.random.seed(rank)
        torch.manual_seed(rank)
        states.append(RNG().state_dict())
        expected.append(draw())
    drawn: list[list[float]] = []
    for _ in range(2):
        for rank in range(4):
            generators = RNG()
            generators.load_state_dict(generators.reshard_state_dict(states, rank, 4))
            drawn.append(draw())
    assert drawn[:4] == drawn[4:]
    assert drawn[:2] == expected
    assert all(len({numbers[place] for numbers in drawn[:4]}) == 4 for place in range(5))


def test_restoring_other_objects_does_not_move_the_random_numbers(tmp_path: Path) -> None:
    class Drawing:
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            draw()

    save_world([{"rng": RNG(), "x": Drawing()}], tmp_path)
    expected = draw()
    restore({"rng": RNG(), "x": Drawing()}, tmp_path)
    assert draw() == expected


def test_numpy_is_not_imported_for_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy")
    assert RNG().state_dict().keys() == {"python", "torch"}


def test_per_rank_keys_stand_apart_from_shared_ones() -> None:
    state = States({"a": PerRank({"x": 1}), "b": 1}, rank=2, world=3).collect()
    assert state.keys() == {root_of("a", 2), "b", "elaunch.shape.b"}
