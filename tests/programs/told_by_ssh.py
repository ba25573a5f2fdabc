"""A program for tests, without torch: tells where it runs and what it was given, then waits as it was asked to.

``told_by_ssh.py HOW [ARGUMENT...]``: ``HOW`` is ``end``, ``fail`` (rank 1 does, with 7) or ``stay`` (until $OUT/stop).
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

OUT = Path(os.environ["OUT"])
rank = int(os.environ["RANK"])
told = {
    "rank": rank,
    "world": int(os.environ["WORLD_SIZE"]),
    "generation": int(os.environ["ELAUNCH_GENERATION"]),
    "host": socket.gethostname(),
    "pid": os.getpid(),
    "arguments": sys.argv[2:],
    "secret": os.environ.get("SECRET", ""),
    "cwd": os.getcwd(),
}
beside = OUT / f"{told['generation']}-{rank}.new"
beside.write_text(json.dumps(told))
beside.replace(OUT / f"{told['generation']}-{rank}.json")
# With its end in one piece: print writes that by itself, and another rank of this host may come between.
print(f"rank {rank} says hello\n", end="", flush=True)
print(f"rank {rank} complains\n", end="", file=sys.stderr, flush=True)
if sys.argv[1] == "fail" and rank == 1:
    sys.exit(7)
deadline = time.monotonic() + 120
while sys.argv[1] != "end" and not (OUT / "stop").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
