"""A program for test_checkpoint_lives: two ranks whose storage is slow, and who end in another way in each generation.

No save is waited for at the end: the process itself waits until it is committed.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import elaunch
from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.storages import posix, posix_files

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])
SECONDS = float(os.environ["SECONDS"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


class SlowSink(posix_files.PosixSink):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._slow = path.suffix == ".distcp"

    def finish(self) -> None:
        time.sleep(SECONDS if self._slow else 0)
        super().finish()


class SlowSource(posix_files.PosixSource):
    def read_into(self, offset: int, view: memoryview) -> None:
        time.sleep(SECONDS)
        super().read_into(offset, view)


def slow() -> None:
    """Rank 0's disk takes long to write, rank 1's to read."""
    if RANK == 0:
        posix.PosixSink = SlowSink  # type: ignore[misc]
    elif GENERATION == 2:
        posix.PosixSource = SlowSource  # type: ignore[misc]


def work(seconds: float) -> None:
    """Both go on together all the time."""
    more = torch.ones(1)
    end = time.monotonic() + seconds
    while more:
        time.sleep(0.02)
        more.fill_(time.monotonic() < end)
        dist.all_reduce(more, op=dist.ReduceOp.MIN)


slow()
dist.init_process_group("gloo")
weights = torch.arange(6.0)
checkpointer = Checkpointer(OUT / "checkpoints", {"weights": weights})
first = checkpointer.restore()
record("restored", step=first, weights=weights.tolist())
weights += 1
step = first + 1
elaunch.step(step)
work(0.5)
if GENERATION == 1:
    checkpointer.save(step)
    begun = time.monotonic()
    work(SECONDS / 10)
    record("worked", behind=not checkpointer._pending.done.is_set())
    elaunch.step(step + 1)
    weights += 1
    checkpointer.save(step + 1)
    record("saved", waited=time.monotonic() - begun)
    checkpointer.wait()
    weights += 1
    elaunch.step(step + 2)
    checkpointer.save(step + 2)
    raise ValueError("right after a save")
checkpointer.save(step)
if GENERATION == 2:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
if GENERATION == 3 and RANK == 1:
    sys.exit(3)
if GENERATION == 4:
    dist.destroy_process_group()
