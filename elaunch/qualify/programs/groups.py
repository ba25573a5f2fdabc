"""Groups of ranks: made, torn down, made again; several at once, and interleaved."""

from __future__ import annotations

import torch
import torch.distributed as dist

from elaunch.qualify.programs.collectives import check, element
from elaunch.qualify.programs.place import TIMEOUT, Place, backend
from elaunch.qualify.programs.trying import Handler, NotHereError

_COUNT = 4096


def _first(place: Place) -> str:
    ones = torch.ones(1, device=place.device)
    dist.all_reduce(ones)
    place.spoil(ones)
    assert ones.item() == place.world, f"a sum over all ranks of 1 is {ones.item():g}, expected {place.world}"
    return f"{place.world} ranks, {backend()}"


def _repeated(place: Place) -> str:
    for _ in range(3):
        dist.destroy_process_group()
        dist.init_process_group(backend(), timeout=TIMEOUT)
        _first(place)
    return "3 times"


def _concurrent(place: Place) -> None:
    """Both have their calls under way before either is awaited."""
    groups = [dist.new_group() for _ in range(2)]
    tensors = [element(place, place.rank, _COUNT * (n + 1), torch.float32, n) for n in range(2)]
    works = [dist.all_reduce(t, group=g, async_op=True) for t, g in zip(tensors, groups, strict=True)]
    for work in works:
        work.wait()
    for n, tensor in enumerate(tensors):
        place.spoil(tensor)
        check(f"group {n}", tensor, _sum(place, _COUNT * (n + 1), n))


def _interleaved(place: Place) -> None:
    groups = [dist.new_group() for _ in range(2)]
    calls = []
    for n in range(8):
        tensor = element(place, place.rank, _COUNT, torch.float32, n)
        calls.append((n, tensor, dist.all_reduce(tensor, group=groups[n % 2], async_op=True)))
    for n, tensor, work in reversed(calls):
        work.wait()
        place.spoil(tensor)
        check(f"call {n}", tensor, _sum(place, _COUNT, n))


def _parts(place: Place) -> None:
    if place.world < 2:
        raise NotHereError("needs two ranks")
    half = place.world // 2
    halves = [list(range(half)), list(range(half, place.world))]
    groups = [dist.new_group(ranks) for ranks in halves]
    mine = int(place.rank >= half)
    tensor = torch.tensor([float(place.rank)], device=place.device)
    dist.all_reduce(tensor, group=groups[mine])
    place.spoil(tensor)
    assert tensor.item() == sum(halves[mine]), f"the sum is {tensor.item():g}, expected {sum(halves[mine])}"


def _sum(place: Place, count: int, shift: int) -> torch.Tensor:
    every = [element(place, rank, count, torch.float32, shift) for rank in range(place.world)]
    return torch.stack(every).sum(0)


CELLS: dict[str, Handler] = {
    "init/first": _first,
    "init/repeated": _repeated,
    "groups/concurrent": _concurrent,
    "groups/interleaved": _interleaved,
    "groups/parts": _parts,
}
