"""The collectives, each result checked against values that the rank computes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from elaunch.qualify import collectives as values
from elaunch.qualify.collectives import SIZES, Collective, modulus
from elaunch.qualify.programs.place import Place
from elaunch.qualify.programs.telling import tell
from elaunch.qualify.programs.trying import Handler

_REPEATS = 3


def handler(name: str, mode: str) -> Handler:
    """Of a cell of collectives. Raises ValueError for another."""
    one = Collective.of(name)

    def run(place: Place) -> str:
        refused = ""
        for size in SIZES[mode] if one.dtype == "float32" else SIZES[mode][:-1]:
            if one.layout == "contiguous":
                _timed(one, size, place)
            else:
                refused = _transposed(one, size, place) or refused
        return f"refused: {refused}" if refused else ""

    return run


def element(place: Place, rank: int, count: int, dtype: Any, shift: int = 0) -> Any:
    """What ``rank`` puts in: whole numbers whose sum over all ranks is exact."""
    whole = torch.arange(count, device=place.device, dtype=torch.int64) * 7 + rank * 13 + shift
    return (whole % modulus(place.world)).to(dtype)


def _timed(one: Collective, size: int, place: Place) -> None:
    dtype = getattr(torch, one.dtype)
    best = float("inf")
    for _ in range(_REPEATS):
        work, result, wanted = prepared(one.op, size, dtype, place)
        dist.barrier()  # what others prepare for longer is not this collective's
        _finish(place)
        begin = time.perf_counter()
        work()
        _finish(place)
        best = min(best, time.perf_counter() - begin)
        place.spoil(result)
        check(f"{one.op} of {size} bytes", result, wanted)
    if place.rank == 0 and one.dtype == "float32":
        tell("bandwidth", op=one.op, bytes=size, seconds=best)


def _finish(place: Place) -> None:
    """Wait for what the device has to do yet."""
    if place.device.type == "cuda":
        torch.cuda.synchronize()


def _transposed(one: Collective, size: int, place: Place) -> str:
    """A transposed matrix as what goes in: the right result, or why it was refused."""
    work, result, wanted = prepared(one.op, size, getattr(torch, one.dtype), place, turned=True)
    try:
        work()
    except (ValueError, RuntimeError) as error:
        if "contiguous" not in str(error) and "dense" not in str(error):
            raise
        return str(error).splitlines()[0][:120]
    place.spoil(result)
    check(f"{one.op} of {size} bytes, transposed", result, wanted)
    return ""


def prepared(op: str, size: int, dtype: Any, place: Place, turned: bool = False) -> tuple[Callable[[], Any], Any, Any]:
    """What to call, where its result will be, and what has to stand there."""
    world, rank = place.world, place.rank
    length = max(1, size // dtype.itemsize // world)
    count = length * world

    def put_in(by: int) -> Any:
        return element(place, by, count, dtype)

    def part(whole: Any, of: int) -> Any:
        return whole[of * length : (of + 1) * length]

    mine = _turned(put_in(rank)) if turned else put_in(rank)
    if op == values.ALL_REDUCE:
        return lambda: dist.all_reduce(mine), mine, _total(place, count, dtype)
    if op == values.ALL_GATHER:
        own = part(put_in(rank), rank).clone()
        own = _turned(own) if turned else own
        whole = torch.zeros(count, dtype=dtype, device=place.device)
        wanted = torch.cat([part(put_in(other), other) for other in range(world)])
        return lambda: dist.all_gather([chunk.view(own.shape) for chunk in whole.chunk(world)], own), whole, wanted
    if op == values.REDUCE_SCATTER:
        pieces = [_turned(piece.clone()) if turned else piece for piece in put_in(rank).chunk(world)]
        mine = torch.zeros_like(pieces[0])  # laid out as they are: Gloo looks at the memory, not at the strides
        return lambda: dist.reduce_scatter(mine, pieces), mine, part(_total(place, count, dtype), rank)
    if op == values.BROADCAST:
        return lambda: dist.broadcast(mine, src=world - 1), mine, put_in(world - 1)
    if op == values.ALL_TO_ALL:
        whole = torch.zeros_like(mine)
        wanted = torch.cat([part(put_in(other), rank) for other in range(world)])
        return lambda: dist.all_to_all_single(whole, mine), whole, wanted
    if op == values.SEND_RECV:
        got = torch.zeros_like(mine)
        return lambda: _ring(mine, got, place), got, put_in((rank - 1) % world)
    raise ValueError(f"no collective {op!r}")


def _total(place: Place, count: int, dtype: Any) -> Any:
    """The sum over all ranks; one rank's tensor at a time, as there may be many."""
    total = torch.zeros(count, device=place.device, dtype=torch.int64)
    for rank in range(place.world):
        total += element(place, rank, count, torch.int64)
    return total.to(dtype)


def _ring(mine: Any, got: Any, place: Place) -> None:
    """To the next rank, from the one before."""
    if place.world == 1:
        got.copy_(mine)
        return
    there, back = (place.rank + 1) % place.world, (place.rank - 1) % place.world
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, there), dist.P2POp(dist.irecv, got, back)]):
        work.wait()


def _turned(tensor: Any) -> Any:
    """The same values in the same order as a matrix whose rows lie apart in memory: dense, and not contiguous."""
    matrix = tensor.view(-1, 2) if tensor.numel() % 2 == 0 else tensor.view(-1, 1)
    return matrix.t().contiguous().t()


def check(what: str, result: Any, wanted: Any) -> None:
    """Raises AssertionError that says where it is wrong first."""
    if result.dim() > wanted.dim():
        result = result.reshape(-1)
    assert result.shape == wanted.shape, f"{what}: shape {tuple(result.shape)}, expected {tuple(wanted.shape)}"
    different = (result != wanted).nonzero()
    if different.numel():
        at = tuple(different[0].tolist())
        got, right = result[at].item(), wanted[at].item()
        raise AssertionError(f"{what}: element {at[0] if len(at) == 1 else at} is {got}, expected {right}")
