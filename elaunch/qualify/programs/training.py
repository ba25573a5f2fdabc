"""DistributedDataParallel in its variants, each against a reference that one process computes by itself."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from elaunch.qualify.programs.place import Place
from elaunch.qualify.programs.trying import Handler, NotHereError

STEPS = 3
LossOf = Callable[[Any, int, int, Place], Any]
"""The loss of (model, step, rank): what that rank computes in that step."""


class Net(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A small one, with parts that may be left out and activations that may be computed again."""

    def __init__(self, width: int = 16, again: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.last = nn.Linear(width, 4)
        self.again = again

    def forward(self, x: Any, parts: Iterable[int] = (0, 1)) -> Any:
        x = torch.relu(self.first(x))
        for part in parts:
            layer = self.parts[part]
            x = torch.tanh(checkpoint(layer, x, use_reentrant=False) if self.again else layer(x))
        return self.last(x)


def net(place: Place, dtype: Any = torch.float64, again: bool = False) -> Any:
    torch.manual_seed(7)
    return Net(again=again).to(place.device, dtype)


def batch(step: int, rank: int, place: Place, dtype: Any = torch.float64) -> Any:
    made = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(6, 8, generator=made, dtype=torch.float64).to(place.device, dtype)


def usual(model: Any, step: int, rank: int, place: Place) -> Any:
    return model(batch(step, rank, place)).square().mean()


def optimizer(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def close(what: str, mine: Any, right: Any, tolerance: float) -> None:
    """Raises AssertionError."""
    off = (mine.detach().double() - right.detach().double()).abs().max().item()
    assert off <= tolerance, f"{what} is off by {off:.3g}, the tolerance is {tolerance:g}"


def compare(
    place: Place, wrap: Callable[[Any], Any], loss_of: LossOf = usual, *, model: Any = None, tolerance: float = 1e-9
) -> Any:
    """Train both ways: the losses, the reduced gradients and the updated parameters of every step are the same."""
    mine = model if model is not None else net(place)
    reference = copy.deepcopy(mine)
    wrapped = wrap(mine)
    ours, theirs = optimizer(wrapped), optimizer(reference)
    for step in range(STEPS):
        losses = [loss_of(reference, step, rank, place) for rank in range(place.world)]
        torch.autograd.backward([loss / place.world for loss in losses])
        loss = loss_of(wrapped, step, place.rank, place)
        loss.backward()
        close(f"step {step}: the loss", loss, losses[place.rank], tolerance)
        same_members(f"step {step}: the gradient of", mine, reference, tolerance, place, grad=True)
        ours.step()
        theirs.step()
        same_members(f"step {step}: parameter", mine, reference, tolerance, place)
        ours.zero_grad()
        theirs.zero_grad()
    return wrapped


def same_members(what: str, mine: Any, right: Any, tolerance: float, place: Place, grad: bool = False) -> None:
    for (name, one), (_, other) in zip(mine.named_parameters(), right.named_parameters(), strict=True):
        if grad and one.grad is None and other.grad is None:
            continue
        value, wanted = (one.grad, other.grad) if grad else (one, other)
        if value is None or wanted is None:
            assert wanted is None or not wanted.any(), f"{what} {name} is missing"
            assert value is None or not value.any(), f"{what} {name} is there, and should not be"
            continue
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        if not grad:
            whole = whole.detach().clone()
            place.spoil(whole)
        close(f"{what} {name}", whole, wanted, tolerance)


def ddp(place: Place, **options: Any) -> Callable[[Any], Any]:
    devices = [place.device.index] if place.device.type == "cuda" else None
    return lambda model: DistributedDataParallel(model, device_ids=devices, **options)


def _plain(place: Place) -> None:
    compare(place, ddp(place))


def _bucketing(place: Place) -> str:
    """The order in which buckets are reduced is noted by a hook, and compared."""
    order: list[tuple[int, int]] = []

    def hook(_, bucket):  # type: ignore[no-untyped-def]  # torch demands its own annotations, or none
        order.append((bucket.index(), bucket.buffer().numel()))
        return _averaged(bucket, place)

    def wrap(model: Any) -> Any:
        wrapped = ddp(place, bucket_cap_mb=0.001)(model)
        wrapped.register_comm_hook(None, hook)
        return wrapped

    compare(place, wrap)
    everyone: list[Any] = [None] * place.world
    dist.all_gather_object(everyone, order)
    assert len({index for index, _ in order}) > 1, "there was but one bucket"
    different = next((rank for rank, other in enumerate(everyone) if other != order), None)
    assert different is None, f"rank {different} reduced other buckets, or in another order"
    return f"{len({index for index, _ in order})} buckets"


def _averaged(bucket: Any, place: Place) -> Any:
    work = dist.all_reduce(bucket.buffer().div_(place.world), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def _no_sync(place: Place) -> str:
    """A reduction too many has the same gradients in the end: how many there are is counted by a hook."""
    reduced = [0]

    def hook(_, bucket):  # type: ignore[no-untyped-def]  # torch demands its own annotations, or none
        reduced[0] += 1
        return _averaged(bucket, place)

    mine = net(place)
    reference = copy.deepcopy(mine)
    wrapped = ddp(place)(mine)
    wrapped.register_comm_hook(None, hook)
    for step in range(STEPS):
        for rank in range(place.world):
            for number in (step + 100, step):
                (usual(reference, number, rank, place) / place.world).backward()
        with wrapped.no_sync():
            usual(wrapped, step + 100, place.rank, place).backward()
        assert not reduced[0], f"step {step}: gradients are reduced in no_sync"
        usual(wrapped, step, place.rank, place).backward()
        assert reduced[0], f"step {step}: no gradient is reduced after no_sync"
        reduced[0] = 0
        same_members(f"step {step}: the gradient of", mine, reference, 1e-9, place, grad=True)
        for model in (mine, reference):
            optimizer(model).step()
            model.zero_grad()
        same_members(f"step {step}: parameter", mine, reference, 1e-9, place)
    return f"{STEPS} steps of two batches, reduced once each"


def _hooks(place: Place) -> None:
    seen: list[str] = []

    def wrap(model: Any) -> Any:
        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
        wrapped = ddp(place)(model)
        wrapped.register_comm_hook(None, lambda _, bucket: _averaged(bucket, place))
        return wrapped

    model = net(place)
    names = {name for name, _ in model.named_parameters()}
    compare(place, wrap, model=model)
    assert set(seen) == names, f"no hook was called for {sorted(names - set(seen))}"


def _unused(place: Place) -> None:
    def loss_of(model: Any, step: int, rank: int, place: Place) -> Any:
        return model(batch(step, rank, place), ((step + rank) % 2,)).square().mean()

    compare(place, ddp(place, find_unused_parameters=True), loss_of)


def _static(place: Place) -> None:
    compare(place, ddp(place, static_graph=True))


def _join(place: Place) -> str:
    """Rank r has two batches and r more; whoever has none left stands in with zeros."""
    mine = net(place)
    reference = copy.deepcopy(mine)
    wrapped = ddp(place)(mine)
    ours, theirs = torch.optim.SGD(wrapped.parameters(), lr=0.05), torch.optim.SGD(reference.parameters(), lr=0.05)
    with wrapped.join():
        for step in range(2 + place.rank):
            usual(wrapped, step, place.rank, place).backward()
            ours.step()
            ours.zero_grad()
    for step in range(1 + place.world):
        for rank in range(place.world):
            if step < 2 + rank:
                (usual(reference, step, rank, place) / place.world).backward()
        theirs.step()
        theirs.zero_grad()
    same_members("at the end parameter", mine, reference, 1e-9, place)
    return f"2 to {1 + place.world} batches"


def _mixed(place: Place) -> None:
    def loss_of(model: Any, step: int, rank: int, place: Place) -> Any:
        with torch.autocast(place.device.type, torch.bfloat16):
            return model(batch(step, rank, place, torch.float32)).float().square().mean()

    compare(place, ddp(place), loss_of, model=net(place, torch.float32), tolerance=2e-2)


def _checkpointed(place: Place) -> None:
    compare(place, ddp(place), model=net(place, again=True))


def _compiled(place: Place) -> str:
    compiler = next((name for name in ("g++", "c++", "clang++") if shutil.which(name)), None)
    if compiler is None:
        raise NotHereError("torch.compile needs a C++ compiler, and there is none (g++, clang++)")
    compare(place, lambda model: torch.compile(ddp(place)(model)), tolerance=1e-6)
    return f"with {compiler}"


CELLS: dict[str, Handler] = {
    "ddp/plain": _plain,
    "ddp/bucketing": _bucketing,
    "ddp/no_sync": _no_sync,
    "ddp/hooks": _hooks,
    "ddp/unused": _unused,
    "ddp/static-graph": _static,
    "ddp/join": _join,
    "ddp/mixed-precision": _mixed,
    "ddp/checkpointed": _checkpointed,
    "ddp/compiled": _compiled,
}
