"""What bench/launch.py starts: note when the first all-reduce was through, then reduce until told to stop.

Every rank writes ``$OUT/<pid>.json`` once: its time on the monotonic clock, which all processes of a host
share.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    out = Path(os.environ["OUT"])
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    first = {
        "time": time.monotonic(),
        "rank": dist.get_rank(),
        "world": dist.get_world_size(),
        "pid": os.getpid(),
    }
    partial = out / f"{os.getpid()}.partial"
    partial.write_text(json.dumps(first))
    partial.rename(out / f"{os.getpid()}.json")
    stop = torch.zeros(1)
    while not stop.item():
        time.sleep(0.02)
        stop.fill_(float((out / "stop").exists()))
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
