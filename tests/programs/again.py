"""A program for tests: makes and destroys its process groups 50 times, and tells what that left behind.

With $MIXED rank 1 makes a world of its own in between, which is nobody else's affair.
"""

import gc
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

RANK, TIMES = int(os.environ["RANK"]), int(os.environ.get("TIMES", "50"))


def held() -> dict[str, int]:
    return {"threads": len(os.listdir("/proc/self/task")), "files": len(os.listdir("/proc/self/fd"))}


def keys() -> list[str]:
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return [key for key in store.list_keys() if key.startswith("elaunch/")] if hasattr(store, "list_keys") else []


def once() -> None:
    dist.init_process_group("gloo")
    half = dist.new_group([0, 1], group_desc="half")
    mesh = dist.init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    total = torch.ones(1)
    dist.all_reduce(total, group=mesh.get_group("tp"))
    dist.all_reduce(total, group=half)
    dist.destroy_process_group()
    assert int(total) == 4, total


def main() -> None:
    gc.disable()  # nothing is left to the collector either: it would keep the program's tensors for long
    once()
    if "MIXED" in os.environ and RANK == 1:
        dist.init_process_group("gloo", rank=0, world_size=1)
        dist.destroy_process_group()
    before = held()
    for _ in range(TIMES - 1):
        once()
    after = held()
    deadline = time.monotonic() + 2
    while after != before and time.monotonic() < deadline:  # the thread that watches may be in the middle of a look
        time.sleep(0.05)
        after = held()
    path = Path(os.environ["OUT"]) / f"{RANK}.json"
    path.write_text(json.dumps({"before": before, "after": after, "keys": keys()}))


if __name__ == "__main__":
    main()
