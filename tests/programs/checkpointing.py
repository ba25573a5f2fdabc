"""A program for tests with a Checkpointer: saves each second step into $OUT/checkpoints, goes on from what it finds.

In generation 1 rank 1 ends with code 7 in step 7, once step 6 is committed. While $OUT/poison exists, rank 1 raises if
it goes on from step 8. Ends once $OUT/stop exists.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import elaunch
from elaunch.checkpoint import Checkpointer

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


dist.init_process_group("gloo")
weights = torch.zeros(4)
checkpointer = Checkpointer(OUT / "checkpoints", {"weights": weights})
first = checkpointer.restore()
record("restored", step=first, weights=weights.tolist())
if (OUT / "poison").exists() and first == 8:
    dist.barrier()  # rank 0 has told that it goes on from there
    if RANK == 1:
        raise ValueError("the loss is no number")
for step in range(first + 1, 10):
    weights += 1
    dist.all_reduce(torch.ones(1))
    elaunch.step(step)
    if step % 2 == 0:
        checkpointer.save(step)
    if step == 7:
        checkpointer.wait()
        dist.barrier()
        if GENERATION == 1 and RANK == 1:
            raise SystemExit(7)
checkpointer.wait()
record("idle", weights=weights.tolist())
while not (OUT / "stop").exists():
    time.sleep(0.05)
checkpointer.close()
