"""FSDP2, tensor parallelism, placements of DTensor, and meshes, against references computed locally."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from elaunch.qualify.programs.collectives import check
from elaunch.qualify.programs.place import Place
from elaunch.qualify.programs.training import batch, compare, net
from elaunch.qualify.programs.trying import Handler


def _mesh(place: Place, *shape: int) -> Any:
    names = ("x", "y", "z")[: len(shape)]
    return init_device_mesh(place.device.type, shape, mesh_dim_names=names)


def shape(world: int, dimensions: int) -> tuple[int, ...]:
    """A mesh of all ranks with as equal sides as their number allows, the largest last."""
    sides, left = [], world
    for more in range(dimensions, 1, -1):
        side = next(n for n in range(math.floor(left ** (1 / more) + 1e-9), 0, -1) if left % n == 0)
        sides.append(side)
        left //= side
    return (*sides, left)


def _fully(place: Place, policy: MixedPrecisionPolicy | None = None) -> Any:
    def wrap(model: Any) -> Any:
        mesh = _mesh(place, place.world)
        options = {"mesh": mesh} | ({"mp_policy": policy} if policy is not None else {})
        for layer in (model.first, *model.parts, model.last):
            fully_shard(layer, **options)
        return fully_shard(model, **options)

    return wrap


def _fsdp(place: Place) -> None:
    compare(place, _fully(place))


def _fsdp_mixed(place: Place) -> None:
    def loss_of(model: Any, step: int, rank: int, place: Place) -> Any:
        return model(batch(step, rank, place, torch.float32)).float().square().mean()

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    compare(place, _fully(place, policy), loss_of, model=net(place, torch.float32), tolerance=5e-2)


def _tensor_parallel(place: Place) -> None:
    """All ranks have the same input, so the mean over the ranks of the reference is its own value."""

    def loss_of(model: Any, step: int, _: int, place: Place) -> Any:
        return model(batch(step, 0, place), (0,)).square().mean()

    def wrap(model: Any) -> Any:
        plan = {"first": ColwiseParallel(), "parts.0": RowwiseParallel()}
        return parallelize_module(model, _mesh(place, place.world), plan)

    compare(place, wrap, loss_of)


def _redistribute(place: Place) -> str:
    mesh = _mesh(place, place.world)
    rows, columns = 2 * place.world, 4 * place.world
    whole = torch.arange(rows * columns, dtype=torch.float64, device=place.device).reshape(rows, columns)
    placements = {"replicate": Replicate(), "rows": Shard(0), "columns": Shard(1)}
    ways = 0
    for (a, source), (b, target) in itertools.product(placements.items(), repeat=2):
        moved = distribute_tensor(whole, mesh, [source]).redistribute(placements=[target])
        _holds(f"{a} to {b}", moved, whole, target, place)
        ways += 1
    for b, target in placements.items():  # each rank has a part of the sum
        part = DTensor.from_local(whole * (place.rank + 1), mesh, [Partial()])
        _holds(f"partial to {b}", part.redistribute(placements=[target]), whole * _sum(place.world), target, place)
        ways += 1
    return f"{ways} ways"


def _holds(what: str, tensor: Any, whole: Any, target: Any, place: Place) -> None:
    local = tensor.to_local().clone()
    place.spoil(local)
    dimension = getattr(target, "dim", None)
    wanted = whole if dimension is None else whole.chunk(place.world, dimension)[place.rank]
    check(f"{what}: what this rank holds", local, wanted)
    check(f"{what}: the whole", tensor.full_tensor(), whole)


def _sum(world: int) -> int:
    return world * (world + 1) // 2


def _mesh_of(dimensions: int) -> Handler:
    def run(place: Place) -> str:
        sides = shape(place.world, dimensions)
        mesh = _mesh(place, *sides)
        ranks = torch.arange(place.world).reshape(sides)
        here = tuple(int(n) for n in (ranks == place.rank).nonzero()[0])
        assert tuple(mesh.get_coordinate()) == here, f"this rank is at {mesh.get_coordinate()}, expected {here}"
        for dimension, name in enumerate(mesh.mesh_dim_names):
            along = tuple(slice(None) if d == dimension else at for d, at in enumerate(here))
            peers = ranks[along].tolist()
            total = torch.tensor([2.0**place.rank], dtype=torch.float64, device=place.device)
            dist.all_reduce(total, group=mesh.get_group(name))
            place.spoil(total)
            wanted = sum(2.0**rank for rank in peers)
            assert total.item() == wanted, f"along {name}: the sum is {total.item():g}, expected that of {peers}"
        if dimensions == 2:
            assert mesh["y"].size() == sides[1], f"the slice y has {mesh['y'].size()} ranks, expected {sides[1]}"
        return " x ".join(map(str, sides))

    return run


CELLS: dict[str, Handler] = {
    "fsdp2/plain": _fsdp,
    "fsdp2/mixed-precision": _fsdp_mixed,
    "tp/mlp": _tensor_parallel,
    "dtensor/redistribute": _redistribute,
    "mesh/1d": _mesh_of(1),
    "mesh/2d": _mesh_of(2),
    "mesh/3d": _mesh_of(3),
}
