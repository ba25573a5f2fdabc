"""A program for tests that tells its steps: a slow first one, a long checkpoint, and in generation 1 then no more.

Needs no torch. Step $STEP seconds, the first 20 times and the checkpoint 50 times as long.
"""

import os
import time

import elaunch

STEP = float(os.environ["STEP"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def work(steps: float) -> None:
    time.sleep(STEP * steps)


for step in range(60):
    work(20 if step == 0 else 1)
    elaunch.step(step)
    if step == 40:
        with elaunch.section("checkpoint"):
            work(50)
while GENERATION == 1:
    time.sleep(60)
