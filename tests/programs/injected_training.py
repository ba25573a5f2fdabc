"""A small training with DDP and checkpoints below $OUT/ckpt, for faults at its points; it ends once $OUT/stop exists.

Writes JSON lines to $OUT/<generation>-<rank>.jsonl. With TELL=1 it says at which step it is.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import elaunch
from elaunch.checkpoint import Checkpointer

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    record("start")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    longest = float(os.environ.get("LONGEST", "1800"))
    with Checkpointer(OUT / "ckpt", {"model": model, "optimizer": optimizer}, timeout=longest) as checkpoints:
        step = checkpoints.restore()
        stop = torch.zeros(1)
        while not stop.item():
            loss = model(torch.ones(4, 16) * step).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if os.environ.get("TELL") == "1":
                elaunch.step(step)
            record("step", step=step)
            if step % 5 == 0:
                checkpoints.save(step)
            stop = torch.tensor([float((OUT / "stop").exists())])
            dist.all_reduce(stop)
            time.sleep(0.02)
    dist.destroy_process_group()
    record("end")


main()
