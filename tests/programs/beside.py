"""A program for tests: rank 1's saver waits in a collective for rank 0's, rank 0's main thread for rank 1's.

Both are at work, and come after $SECONDS.
"""

import os
import threading
import time

import torch
import torch.distributed as dist

from elaunch.worker import background

RANK = int(os.environ["RANK"])
SECONDS = float(os.environ["SECONDS"])

dist.init_process_group("gloo")
group = dist.new_group(backend="gloo")
dist.barrier(group=group)
if "UNDECLARED" not in os.environ:
    background.declare(group)
dist.all_reduce(torch.ones(4))


def save() -> None:
    with background.thread():
        if RANK == 0:
            time.sleep(SECONDS)  # a slow disk
        dist.barrier(group=group)


def work() -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(0.03)  # here, there and elsewhere: whenever one looks, it has gone on
        time.sleep(0.04)
        time.sleep(0.05)
        time.sleep(0.06)


saver = threading.Thread(target=save)
saver.start()
if RANK == 1:
    work()
dist.all_reduce(torch.ones(4))
saver.join()
print("through\n", end="", flush=True)
