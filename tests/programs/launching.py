"""A program that launches a job itself: ``launching.py MODE``. It says what came of it in one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import elaunch

MODE = sys.argv[1]
CONFIG = elaunch.LaunchConfig(nproc_per_node=2, start="exec", grace_period=5, quiet=True)


def waits() -> None:
    """Say that this rank is there, and stay."""
    print(f"rank {elaunch.context().rank} is there\n", end="", flush=True)  # in one write, which no signal parts
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)


def adds() -> float:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value)
    dist.destroy_process_group()
    return float(value)


def interrupted() -> str:
    try:
        elaunch.launch(CONFIG, waits)
    except KeyboardInterrupt:
        return "interrupted"
    return "it ended"


def beside_torch() -> dict[int, float]:
    """In a process that has imported torch, and has its threads."""
    import torch

    torch.set_num_threads(2)
    a = torch.ones(256, 256)
    float((a @ a).sum())
    from torch.distributed.launcher.api import LaunchConfig

    theirs = LaunchConfig(1, 1, 2, run_id="theirs", rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
    return elaunch.launch(theirs, adds)  # type: ignore[call-overload,no-any-return]


def from_a_thread() -> list[object]:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(elaunch.launch(CONFIG, os.getppid)))
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    thread.start()
    thread.join()
    same = before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    return [len(set(found[0].values())), same, "torch" in sys.modules]  # type: ignore[attr-defined]


if MODE == "unguarded":

    class Thing:
        """One whose import the ranks need."""

    elaunch.launch(CONFIG, len, [Thing()])

if __name__ == "__main__":
    run = {"interrupted": interrupted, "killed": interrupted, "torch": beside_torch, "thread": from_a_thread}[MODE]
    print(json.dumps(run()), flush=True)
