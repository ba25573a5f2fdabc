"""A program for tests: a start that goes wrong in the way that $HOW names, on rank $WHO (1 if there is none).

Each rank appends what it sees to $OUT/<rank>.txt.
"""

import ctypes
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

HOW = os.environ["HOW"]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ODD = int(os.environ.get("WHO", "1")) == RANK
TIMEOUT = timedelta(seconds=float(os.environ.get("TIMEOUT", "60")))
_NEW_NETWORK = 0x40000000


def say(text: object) -> None:
    with open(Path(os.environ["OUT"]) / f"{RANK}.txt", "a") as file:
        file.write(f"{text}\n")


def without_network() -> None:
    """From the moment on at which this rank has its store, nobody reaches what it listens on."""
    rendezvous = sys.modules["torch.distributed.rendezvous"]
    of_torch = rendezvous._create_c10d_store

    def create(*args: object, **kwargs: object) -> object:
        store = of_torch(*args, **kwargs)
        if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK) != 0:
            say("unprivileged")
        else:
            os.system("ip link set lo up")
        return store

    rendezvous._create_c10d_store = create


def start() -> None:
    if HOW == "sleep" and ODD:
        time.sleep(600)
    if HOW == "unreachable" and ODD:
        without_network()
    if HOW == "world" and ODD:
        dist.init_process_group("gloo", world_size=WORLD + 1, rank=RANK, timeout=TIMEOUT)
    elif HOW == "rank" and ODD:
        dist.init_process_group("gloo", world_size=WORLD, rank=0, timeout=TIMEOUT)
    else:
        dist.init_process_group("gloo", timeout=TIMEOUT)


def main() -> None:
    try:
        start()
        if HOW == "mesh":
            shape = (1, WORLD) if ODD else (WORLD, 1)
            dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
        say("started")
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    except Exception as error:
        say(f"{type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
