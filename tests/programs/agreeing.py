"""A program for tests: all ranks leave their loop at the same step, though notice reaches them at different times."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import elaunch

OUT, RANK = Path(os.environ["OUT"]), int(os.environ["RANK"])
GENERATION = os.environ["ELAUNCH_GENERATION"]

dist.init_process_group("gloo")
step = 0
while not elaunch.should_stop(agree=True):
    if RANK == 1:
        time.sleep(0.03)
    dist.all_reduce(torch.ones(1))
    step += 1
    if step == 5:
        (OUT / f"{GENERATION}-{RANK}.started").write_text(os.environ["WORLD_SIZE"])
dist.barrier()
(OUT / f"{GENERATION}-{RANK}.saved").write_text(str(step))
dist.destroy_process_group()
