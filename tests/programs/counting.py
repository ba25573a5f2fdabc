"""A program for tests, without torch, that counts: a restart or a pause shows in $OUT/<generation>-<rank>.jsonl.

Ends by itself once $OUT/stop exists. $HOST is written down with the start.
"""

import json
import os
import time
from pathlib import Path

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


world = int(os.environ["WORLD_SIZE"])
record(
    "start",
    host=os.environ.get("HOST", ""),
    env={name: os.environ[name] for name in ("TORCHELASTIC_RESTART_COUNT", "ELAUNCH_NODE_ID")},
)
step = 0
while not (OUT / "stop").exists():
    record("step", step=step, world=world)
    step += 1
    time.sleep(0.02)
record("end")
