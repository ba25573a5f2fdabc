"""The points of a program that torch runs: reached by hooks, in a job that was started with ``--allow-injection``.

Where torch has no hook, names are replaced that torch's own functions look up when they are called. A program that
tells no steps with ``elaunch.step`` has those of its optimizers counted.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from elaunch.inject import points
from elaunch.inject.fault import Fault
from elaunch.inject.watching import Watch

_MOST_NODES = 100_000  # of a graph that are looked at


def install_points() -> None:
    """Once, after torch was imported; nothing where this process is no rank."""
    watch = points.watch()
    if watch is None:
        return
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None:
        _before(c10d, "rendezvous", "rendezvous")
    parallel = sys.modules.get("torch.nn.parallel")
    if parallel is not None:
        _before(parallel.DistributedDataParallel, "__init__", "ddp")
    _forward()
    _backward(watch)
    _optimizer(watch)


def _before(owner: Any, name: str, point: str) -> None:
    of_torch = getattr(owner, name)

    @functools.wraps(of_torch)
    def ours(*args: Any, **kwargs: Any) -> Any:
        points.reached(point)
        return of_torch(*args, **kwargs)

    setattr(owner, name, ours)


def _forward() -> None:
    from torch.nn.modules import module

    depth = [0]

    def enter(*_: Any) -> None:
        depth[0] += 1
        if depth[0] == 1:
            points.reached("forward")

    def leave(*_: Any) -> None:
        depth[0] = max(0, depth[0] - 1)

    module.register_module_forward_pre_hook(enter)
    module.register_module_forward_hook(leave, always_call=True)


def _backward(watch: Watch) -> None:
    autograd = sys.modules["torch.autograd"]
    of_torch = autograd.backward

    @functools.wraps(of_torch)
    def ours(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if points.watch() is watch and (fault := watch.due("backward")) is not None:
            _amid(tensors, watch, fault)
        return of_torch(tensors, *args, **kwargs)

    autograd.backward = ours  # type: ignore[attr-defined]


def _amid(tensors: Any, watch: Watch, fault: Fault) -> None:
    """Have it happen when half of the parameters have their gradients; at once where there is no such place."""
    first = tensors if hasattr(tensors, "grad_fn") else next(iter(tensors), None)
    leaves = _leaves(getattr(first, "grad_fn", None))
    if not leaves:
        watch.act(fault)
        return
    handles: list[Any] = []

    def act(_: Any) -> None:
        handles.pop().remove()
        watch.act(fault)

    handles.append(leaves[len(leaves) // 2].register_prehook(act))


def _leaves(root: Any) -> list[Any]:
    """Where the gradients of parameters are added up, as they are met on the way down."""
    found: list[Any] = []
    queue = [root] if root is not None else []
    seen = set(queue)
    for node in queue:
        if hasattr(node, "variable"):
            found.append(node)
        for below, _ in node.next_functions:
            if below is not None and below not in seen and len(seen) < _MOST_NODES:
                seen.add(below)
                queue.append(below)
    return found


def _optimizer(watch: Watch) -> None:
    from torch.optim import optimizer

    count = [0]

    def before(*_: Any) -> None:
        points.reached("optimizer")

    def after(*_: Any) -> None:
        count[0] += 1
        if points.watch() is watch and not watch.told:
            watch.count(count[0])

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)
