"""A program without torch that goes on in steps and passes the points of a training; faults are injected into it.

Writes JSON lines to $OUT/<generation>-<rank>.jsonl, and ends by itself once $OUT/stop exists. It begins at step 0 in
each generation.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import elaunch
from elaunch.inject import reached

OUT = Path(os.environ["OUT"])
PACE = float(os.environ.get("PACE", "0.02"))
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def told(signum: int, _: object) -> None:
    record("signal", signal=signum)


signal.signal(signal.SIGUSR1, told)
elaunch.step(0)
record("start", allowed="ELAUNCH_INJECT" in os.environ, world=int(os.environ["WORLD_SIZE"]))
reached("rendezvous")
reached("ddp")
step = 0
while not (OUT / "stop").exists():
    for point in ("forward", "backward", "optimizer"):
        before = time.monotonic()
        reached(point)
        if (late := time.monotonic() - before) > 0.05:
            record("late", at=point, seconds=late, step=step)
    step += 1
    elaunch.step(step)
    record("step", step=step)
    time.sleep(PACE)
record("end")
sys.exit(0)
