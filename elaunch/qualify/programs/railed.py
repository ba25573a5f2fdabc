"""The ranks of the cells about rails: all-reduces over and over, until SIGUSR1. What each round took is told."""

import signal
import time

import torch
import torch.distributed as dist

import elaunch
from elaunch.qualify.programs.place import TIMEOUT, backend
from elaunch.qualify.programs.telling import HOST, path, tell

BYTES = 1 << 20
CALLS = 4  # of a round: Gloo takes the interfaces in turn

_end = [False]


def _told(*_: object) -> None:
    _end[0] = True


def main() -> None:
    signal.signal(signal.SIGUSR1, _told)
    dist.init_process_group(backend(), timeout=TIMEOUT)
    tell("rail", host=HOST, path=path(), world=dist.get_world_size())
    number = 0
    tensor = torch.zeros(BYTES // 4)
    while True:
        begin = time.monotonic()
        for _ in range(CALLS):
            tensor.fill_(float(_end[0]))
            dist.all_reduce(tensor)
        number += 1
        elaunch.step(number)
        tell("round", number=number, seconds=time.monotonic() - begin)
        if tensor[0].item():
            break
        time.sleep(0.02)
    dist.destroy_process_group()


main()
