"""A program for tests: does one thing after the other for those who watch its page; each ends when $OUT/<name> exists.

It does not know that it is watched, but for the section and the steps.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import elaunch

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])


def until(name: str) -> None:
    while not (OUT / name).exists():
        time.sleep(0.01)


def tell(name: str, text: str) -> None:
    """In a file that is there only once all of it is."""
    draft = OUT / f"{name}.new"
    draft.write_text(text)
    draft.replace(OUT / name)


def late(name: str) -> None:
    if RANK == 1:
        until(name)  # LATE
    dist.all_reduce(torch.ones(8))  # REDUCE


class Claims(Dataset):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        from elaunch.worker.claim import claim

        elaunch.step(99)
        return torch.tensor([claim() is None, "torch" in sys.modules])


def load() -> None:
    """The children of data loaders, forked and spawned: neither has a page."""
    found = {
        how: [bool(x) for x in next(iter(DataLoader(Claims(), 1, num_workers=1, multiprocessing_context=how)))[0]]
        for how in ("fork", "spawn")
    }
    tell("children", json.dumps(found))


def main() -> None:
    dist.init_process_group("gloo")
    half = dist.new_group([0, 1], group_desc="half")
    for number in range(3):
        elaunch.step(number)
        dist.all_reduce(torch.ones(4), group=half)
    message = torch.ones(2)
    sent = dist.isend(message, 1) if RANK == 0 else None  # a number that only rank 0's group has used
    late("late")
    sent.wait() if sent else dist.recv(message, 0)
    for _ in range(20):  # rank 1 is five times as slow
        time.sleep(0.1 if RANK else 0.02)
        dist.all_reduce(torch.ones(4))
    late("straggled")
    with elaunch.section("outer", timeout=0.2), elaunch.section("inner", timeout=1000):
        until("overrun")
    if RANK == 1:
        load()
    late("loaded")
    while not elaunch.should_stop():
        time.sleep(0.01)
    tell(f"left{RANK}", str(elaunch.time_left()))
    until("noticed")
    if RANK == 1:
        re.match("(a+)+$", "a" * 64 + "b")  # HELD
    dist.all_reduce(torch.ones(8))


if __name__ == "__main__":
    main()
