"""A rank of bench/overhead.py: steps of about 5 ms, in blocks with elaunch's thread at work and asleep by turns.

Arguments: blocks, steps in a block, where the times go. "python" is a step of Python code that never lets go of the
interpreter lock by itself, "ddp" one of a model in DistributedDataParallel.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from elaunch.worker import progress

WARM_UP = 50
BATCH = 96
LOOPS = 60_000
SECONDS = 0.005  # of a step of Python code


def ddp() -> Callable[[], None]:
    model = torch.nn.Sequential(*(layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(BATCH, 256)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def python() -> Callable[[], None]:
    def work(loops: int) -> float:
        began, total = time.perf_counter(), 0
        for number in range(loops):
            total += number * number % 7
        return time.perf_counter() - began

    loops = round(LOOPS * SECONDS / min(work(LOOPS) for _ in range(WARM_UP)))

    def step() -> None:
        work(loops)

    return step


def asleep(block: int) -> bool:
    """By turns, in the order on, off, off, on, so that a drift of the machine cancels out."""
    return block % 4 in (1, 2)


def thread_seconds() -> float:
    """The CPU time of elaunch's thread."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text() == "elaunch\n":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    raise RuntimeError("elaunch has no thread in this rank")


def blocks(step: Callable[[], None], count: int, steps: int) -> tuple[list[list[float]], list[float]]:
    """The seconds of each step, in blocks, and each block's CPU time of the whole process."""
    watch = progress._watch
    assert watch is not None, "this rank has no page"
    for _ in range(WARM_UP):
        step()
    found, cpu = [], []
    for number in range(count):
        if asleep(number):
            watch.looking.acquire()  # where the thread waits without ever waking up
        times, used = [], time.process_time()
        for _ in range(steps):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
        if asleep(number):
            watch.looking.release()
        found.append(times)
    return found, cpu


def main() -> None:
    count, steps, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    found = {}
    for name, kind in (("ddp", ddp), ("python", python)):
        began = thread_seconds()
        times, cpu = blocks(kind(), count, steps)
        awake = sum(sum(block) for number, block in enumerate(times) if not asleep(number))
        found[name] = {"blocks": times, "cpu": cpu, "share": (thread_seconds() - began) / awake}
    beside = out / f"{dist.get_rank()}.new"
    beside.write_text(json.dumps(found))
    beside.rename(out / f"{dist.get_rank()}.json")
    dist.barrier()


if __name__ == "__main__":
    main()
