"""What four processes do for test_checkpoint_states: worlds of one to four of them, which save, load and train."""

from __future__ import annotations

import json
import multiprocessing
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from elaunch.checkpoint.state.digest import differing
from elaunch.checkpoint.state.per_rank import PerRank
from elaunch.checkpoint.state.saved import saved_keys
from elaunch.checkpoint.state.states import States

PROCESSES = 4
STEPS = 3
LATER = 2
BATCH = 12  # divides by 1, 2, 3 and 4


@dataclass(frozen=True, slots=True)
class World:
    """The first ``size`` processes. ``tp`` of them in a row share a tensor."""

    size: int
    kind: str  # single, ddp, fsdp, hsdp
    tp: int = 1

    def __str__(self) -> str:
        return f"{self.kind}{self.size}" + (f"tp{self.tp}" if self.tp > 1 else "")


class Net(nn.Module):
    """With shapes that no number of ranks divides, a tied weight, a frozen one, one without gradient, and a buffer."""

    counted: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 10)
        self.norm = nn.LayerNorm(6)
        self.down = nn.Linear(10, 6)
        self.narrow = nn.Linear(6, 3)
        self.again = nn.Linear(6, 3, bias=False)
        self.again.weight = self.narrow.weight
        self.unused = nn.Parameter(torch.ones(5))
        self.frozen = nn.Parameter(torch.ones(6, 2), requires_grad=False)
        self.nothing = nn.Parameter(torch.empty(0, 4))
        self.register_buffer("counted", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.counted += 1
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        return self.narrow(x) + self.again(x.sin())


@dataclass
class Run:
    """A program in training: what it would give to a checkpoint."""

    world: World
    model: Any
    optimizer: torch.optim.Optimizer
    scheduler: Any
    average: dict[str, Any]  # of the parameters, in a plain dict
    rank: int
    data_rank: int
    data_ranks: int

    def states(self) -> States:
        own = {"rank": self.rank}
        objects = {
            "model": self.model,
            "optim": self.optimizer,
            "lr": self.scheduler,
            "ema": {"of": self.average},
            "own": PerRank(own, reshard=lambda states, rank, world: {"rank": [state["rank"] for state in states]}),
        }
        return States(objects, rank=self.rank, world=self.world.size)

    def train(self, first: int, last: int) -> None:
        for step in range(first, last):
            batch = torch.randn(BATCH, 6, generator=torch.Generator().manual_seed(step))
            mine = batch[self.data_rank :: self.data_ranks]
            self.model(mine).square().mean().backward()
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            for average, parameter in zip(self.average.values(), self.model.parameters(), strict=True):
                average.lerp_(parameter.detach(), 0.5)


Make = Callable[[Any], torch.optim.Optimizer]


def adamw(parameters: Any) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in parameters if parameter.numel()]
    groups = [{"params": parameters[:3]}, {"params": []}, {"params": parameters[3:], "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=0.01, foreach=False)


def adamw_of_used(parameters: Any) -> torch.optim.Optimizer:
    """Without the parameter that never has a gradient: stock code does not read a checkpoint without its state."""
    return adamw(parameter for parameter in parameters if parameter.shape != (5,))


class Factored(torch.optim.Optimizer):
    """Like Adafactor, of which torch's does not run under FSDP2. One factor is a DTensor, and one a plain tensor."""

    def __init__(self, parameters: Any) -> None:
        super().__init__([parameter for parameter in parameters if parameter.numel()], {"lr": torch.tensor(0.01)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, self.state[parameter], float(group["lr"]))

    def _update(self, parameter: Any, state: dict[str, Any], lr: float) -> None:
        sharded = isinstance(parameter, DTensor)
        grad = parameter.grad.full_tensor() if sharded else parameter.grad
        rows = grad.square().reshape(grad.shape[0], -1).mean(1, keepdim=True)
        columns = grad.square().mean(0, keepdim=True)
        if not state:
            state["rows"], state["columns"] = torch.zeros_like(rows), torch.zeros_like(columns)
            if sharded:
                mesh = parameter.device_mesh
                state["rows"] = DTensor.from_local(state["rows"], mesh, [Replicate()] * mesh.ndim)
        assert isinstance(state["rows"], DTensor) == sharded, "a factor that is no DTensor"
        whole_rows = state["rows"].to_local() if sharded else state["rows"]
        whole_columns = whole(state["columns"])
        whole_rows.lerp_(rows, 0.1)
        whole_columns.lerp_(columns, 0.1)
        state["columns"] = whole_columns
        change = grad / (whole_rows.reshape(-1, *[1] * (grad.ndim - 1)) + whole_columns + 1e-6).sqrt()
        if sharded:
            change = distribute_tensor(change, parameter.device_mesh, parameter.placements)
        parameter.add_(change, alpha=-lr)


class Worlds:
    """The meshes and groups, made by all processes in the same order."""

    def __init__(self) -> None:
        self.groups = {size: dist.new_group(list(range(size))) for size in range(1, PROCESSES + 1)}
        self.meshes = {
            (size, tp): DeviceMesh("cpu", torch.arange(size).view(size // tp, tp), mesh_dim_names=("dp", "tp"))
            for size, tp in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2)]
        }
        self.hybrid = DeviceMesh("cpu", torch.arange(4).view(2, 2), mesh_dim_names=("replicate", "shard"))

    def run(self, world: World, seed: int, make: Make = adamw) -> Run:
        torch.manual_seed(seed)
        model: Any = Net()
        rank = dist.get_rank()
        mesh, ranks = self.meshes[(world.size, world.tp)], world.size // world.tp
        if world.tp > 1:
            parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if world.kind == "fsdp":
            fully_shard(model.up, mesh=mesh["dp"])
            fully_shard(model, mesh=mesh["dp"])
        if world.kind == "hsdp":
            fully_shard(model, mesh=self.hybrid)
        if world.kind == "ddp":
            model = DistributedDataParallel(model, process_group=self.groups[world.size], find_unused_parameters=True)
        optimizer = make(model.parameters())
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        average = {name: torch.zeros_like(parameter).detach() for name, parameter in model.named_parameters()}
        average = {name.removeprefix("module."): tensor for name, tensor in average.items()}
        return Run(world, model, optimizer, scheduler, average, rank, rank // world.tp % ranks, ranks)


def full(run: Run) -> dict[str, Any]:
    """Whole tensors of model and optimizer, by name."""
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    made = {name: whole(value) for name, value in run.model.state_dict().items()}
    made.update({f"average.{name}": whole(value) for name, value in run.average.items()})
    for parameter, state in run.optimizer.state.items():
        made.update({f"{names[id(parameter)]}.{key}": whole(value) for key, value in state.items()})
    return {name.removeprefix("module."): value for name, value in made.items()}


def whole(value: Any) -> Any:
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return value.detach().clone()


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    unequal = [name for name in one if not torch.equal(one[name], other[name])]
    assert not unequal, unequal


def moved(old: World, new: World, make: Make, worlds: Worlds, path: Path) -> None:
    """Train in one world, save; restore into another: equal. Train on: as on one device."""
    rank = dist.get_rank()
    if rank < old.size:
        run = worlds.run(old, 0, make)
        run.train(0, STEPS)
        dcp.save(run.states().collect(), checkpoint_id=path, process_group=worlds.groups[old.size])
        expected = full(run)
        if rank == 0:
            torch.save(expected, path / "expected")
    dist.barrier()
    if rank >= new.size:
        return
    run = worlds.run(new, 1, make)
    states = run.states()
    load(worlds, new, states, path, old.size)
    same(torch.load(path / "expected"), full(run))
    own = {"rank": rank if old.size == new.size else list(range(old.size))}
    assert states.values["own"] == own, states.values["own"]
    if make is Factored and old.kind == new.kind:
        assert not any(isinstance(state["columns"], DTensor) for state in run.optimizer.state.values())
    run.train(STEPS, STEPS + LATER)
    alone = worlds.run(World(1, "single"), 0, make)
    alone.train(0, STEPS + LATER)
    assert alone.scheduler.state_dict() == run.scheduler.state_dict()
    result = full(run)
    for name, value in full(alone).items():
        torch.testing.assert_close(
            result[name], value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name} {text}"
        )


def load(worlds: Worlds, world: World, states: States, path: Path, saved_world: int) -> None:
    saved = saved_keys(dcp.FileSystemReader(path).read_metadata())
    targets = states.targets(saved, saved_world, partial=True)
    dcp.load(targets, checkpoint_id=path, process_group=worlds.groups[world.size])
    states.adopt(targets)


def read_by_stock(world: World, worlds: Worlds, path: Path) -> None:
    if dist.get_rank() >= world.size:
        return
    group = worlds.groups[world.size]
    run, other = worlds.run(world, 0, adamw_of_used), worlds.run(world, 1, adamw_of_used)
    run.train(0, STEPS)
    dcp.save(run.states().collect(), checkpoint_id=path, process_group=group)
    model, optim = get_model_state_dict(other.model), get_optimizer_state_dict(other.model, other.optimizer)
    loaded = {"model": model, "optim": optim}
    dcp.load(loaded, checkpoint_id=path, process_group=group)
    set_model_state_dict(other.model, loaded["model"])
    set_optimizer_state_dict(other.model, other.optimizer, loaded["optim"])
    other.average = run.average
    same(full(run), full(other))


def written_by_stock(old: World, new: World, flat: bool, worlds: Worlds, path: Path) -> None:
    rank = dist.get_rank()
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    if rank < old.size:
        run = worlds.run(old, 0)
        run.train(0, STEPS)
        optim = get_optimizer_state_dict(run.model, run.optimizer, options=options)
        state = {
            "model": get_model_state_dict(run.model),
            "optim": optim,
            "lr": run.scheduler,
            "ema": {"of": run.average},
        }
        dcp.save(state, checkpoint_id=path, process_group=worlds.groups[old.size])
        expected = full(run)
        if rank == 0:
            torch.save(expected, path / "expected")
    dist.barrier()
    if rank < new.size:
        other = worlds.run(new, 1)
        load(worlds, new, other.states(), path, old.size)
        same(torch.load(path / "expected"), full(other))
        assert other.optimizer.param_groups[2]["weight_decay"] == 0.1
        assert other.scheduler.state_dict()["milestones"] == {2: 1, 4: 1}


def compared(worlds: Worlds, path: Path) -> None:
    """The ranks' digests agree, until one of them differs in what would be stored once."""
    run = worlds.run(World(PROCESSES, "fsdp"), 0)
    run.train(0, STEPS)
    assert found(run.states().shared_values()) == []
    run.optimizer.param_groups[0]["lr"] += dist.get_rank() // 2
    run.scheduler.last_epoch += dist.get_rank() // 3
    assert found(run.states().shared_values()) == [("lr", 0, 3), ("optim.param_groups", 0, 2)]


def found(digests: dict[str, bytes]) -> list[tuple[str, int, int]]:
    everyones: list[Any] = [None] * PROCESSES
    dist.all_gather_object(everyones, digests)
    return differing(everyones)


FSDP = {size: World(size, "fsdp") for size in range(1, PROCESSES + 1)}
DDP2, ALONE, TP, HYBRID = World(2, "ddp"), World(1, "single"), World(4, "fsdp", 2), World(4, "hsdp")
MOVES: list[tuple[World, World, Make]] = [
    *((FSDP[old], FSDP[new], adamw) for old, new in [(4, 2), (2, 3), (3, 1), (3, 4), (4, 4)]),
    (TP, FSDP[3], adamw),
    (FSDP[3], TP, adamw),
    (HYBRID, TP, adamw),
    (FSDP[3], HYBRID, adamw),
    (DDP2, FSDP[3], adamw),
    (FSDP[3], DDP2, adamw),
    (DDP2, ALONE, adamw),
    (ALONE, FSDP[4], adamw),
    (FSDP[4], FSDP[2], Factored),
    (DDP2, FSDP[3], Factored),
    (FSDP[3], DDP2, Factored),
]
FROM_STOCK = [(old, new, flat) for old, new in [(FSDP[2], FSDP[3]), (DDP2, FSDP[2])] for flat in (False, True)]
Check = Callable[[Worlds, Path], None]


def checks() -> dict[str, Check]:
    named: dict[str, Check] = {}
    for old, new, make in MOVES:
        named[f"moved {old} {new} {make.__name__}"] = partial(moved, old, new, make)
    for world in (FSDP[3], DDP2):
        named[f"stock reads {world}"] = partial(read_by_stock, world)
    for old, new, flat in FROM_STOCK:
        named[f"stock wrote {old} {new} {'flat' if flat else 'nested'}"] = partial(written_by_stock, old, new, flat)
    return {**named, "compared": compared}


def main(rank: int, path: Path) -> None:
    """One process. Leaves the results in a file: by check, what went wrong, or nothing."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}/store", rank=rank, world_size=PROCESSES)
    worlds, results = Worlds(), {}
    for name, check in checks().items():
        try:
            check(worlds, path / name.replace(" ", "-"))
            results[name] = ""
        except Exception:  # noqa: BLE001 - it is what the test prints
            results[name] = traceback.format_exc()
            break  # the others wait for this one in vain
    (path / f"results{rank}").write_text(json.dumps(results))
    if all(not wrong for wrong in results.values()):
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    # Forked, so that torch is imported once.
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=main, args=(rank, Path(sys.argv[1]))) for rank in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in processes))
