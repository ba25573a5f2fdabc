"""A program for tests without torch: tells steps until $OUT/stop is there.

The rank that stands in $OUT/hang hangs in a section; a generation after the one that also stands there does not.
"""

import json
import os
import sys
import time
from pathlib import Path

import elaunch

OUT = Path(os.environ["OUT"])
RANK, GENERATION = int(os.environ["RANK"]), int(os.environ["ELAUNCH_GENERATION"])


def load() -> None:
    with elaunch.section("load", timeout=0.5):
        time.sleep(1000)


with (OUT / f"{GENERATION}-{RANK}.jsonl").open("a") as file:
    line = {"event": "start", "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic()}
    file.write(json.dumps(line) + "\n")
n = 0
while not (OUT / "stop").exists():
    elaunch.step(n)
    n += 1
    time.sleep(0.05)
    wish = (OUT / "hang").read_text().split() if (OUT / "hang").exists() else []
    if wish == [str(RANK), str(GENERATION)]:
        load()
    if elaunch.should_stop():
        sys.exit(0)
