"""A program for tests, without torch: takes steps until $OUT/stop exists. A rank fails where $OUT/fail-RANK exists."""

import os
import time
from pathlib import Path

import elaunch

OUT = Path(os.environ["OUT"])
rank = os.environ["RANK"]
failing = OUT / f"fail-{rank}"
deadline = time.monotonic() + 300
step = 0
while not (OUT / "stop").exists() and time.monotonic() < deadline:
    elaunch.step(step)
    step += 1
    time.sleep(0.05)
    if failing.exists():
        failing.unlink()
        raise RuntimeError("asked to fail")
