"""A program for tests: one all-reduce of 16 MiB with Gloo, and what this rank was told of interfaces.

$OUT is a directory. It goes on until $OUT/stop exists where $STAY is set.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
MIB = 16

dist.init_process_group("gloo")
ones = torch.ones(MIB << 18) * (RANK + 1)
dist.all_reduce(ones)
assert ones[0].item() == sum(range(1, dist.get_world_size() + 1))
told = {name: value for name, value in os.environ.items() if name.endswith("_SOCKET_IFNAME")}
line = {"event": "reduced", "rank": RANK, "t": time.monotonic(), "pid": os.getpid(), "told": told}
(OUT / f"{os.environ['ELAUNCH_GENERATION']}-{RANK}.jsonl").write_text(json.dumps(line) + "\n")
while os.environ.get("STAY") and not (OUT / "stop").exists():
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
