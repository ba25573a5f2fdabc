"""A program for tests that are to kill it: saves every step to a slow disk, and at its start checks what it restores.

The directory is $CHECKPOINTS, or $OUT/checkpoints. Each rank leaves $OUT/<generation>-<rank>.begun, with its pid in it,
and .restored, and a sentence in .wrong if anything was. It ends once $OUT/stop exists.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.checkpoint.collective.launched import launcher
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
NAME = f"{os.environ['ELAUNCH_GENERATION']}-{RANK}"
DIRECTORY = Path(os.environ.get("CHECKPOINTS", OUT / "checkpoints"))


def leave(what: str, text: str) -> None:
    beside = OUT / f".{NAME}"
    beside.write_text(text)
    beside.rename(OUT / f"{NAME}.{what}")


def slowly(name: str) -> None:
    real = getattr(os, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        time.sleep(random.uniform(0, 0.002))
        return real(*args, **kwargs)

    setattr(os, name, call)


def values(like: torch.Tensor, number: int, step: int) -> torch.Tensor:
    return (torch.arange(like.numel()).view(like.shape) % 13 + number * 17 + step % 97).to(like.dtype)


def newest() -> int:
    wish = launcher().wish()
    assert wish is not None
    catalog = Catalog(Posix(DIRECTORY))
    found = {layout.step_of(name) or 0: catalog.manifest(name).origin.generation for name in catalog.names()}
    return max((step for step, written in found.items() if not wish.passes_over(step, written)), default=0)


leave("begun", str(os.getpid()))
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Linear(50, 3)
own = torch.zeros(3) + RANK
expected = torch.tensor([newest() if RANK == 0 else 0])
dist.broadcast(expected, 0)
ckpt = Checkpointer(DIRECTORY, {"model": model, "own": PerRank(own)}, keep_last=2)
step = ckpt.restore()
tensors = [model.weight.data, model.bias.data, own]
right = [values(tensor, number, step) for number, tensor in enumerate(tensors)]
right[2] += RANK
if step and not all(map(torch.equal, tensors, right)):
    leave("wrong", f"rank {RANK}: not the values of step {step}: {tensors}")
if step != expected.item():
    leave("wrong", f"rank {RANK}: restored {step}, the newest was {expected.item()}")
steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
dist.all_gather(steps, torch.tensor([step]))
if len(set(map(int, steps))) != 1:
    leave("wrong", f"rank {RANK}: the ranks restored {steps}")
leave("restored", str(step))
for name in ("open", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir"):
    slowly(name)
while not (OUT / "stop").exists() or step % 10:
    step += 1
    for number, tensor in enumerate(tensors):
        tensor.copy_(values(tensor, number, step) + (RANK if number == 2 else 0))
    ckpt.save(step)
last = ckpt.wait()
if not last.committed:
    leave("wrong", f"rank {RANK}: {last.error}")
ckpt.close()
