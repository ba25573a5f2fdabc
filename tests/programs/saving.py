"""A program for tests: asks whether it is to stop, and takes $SAVING seconds to save when it is. Needs no torch."""

import os
import time
from pathlib import Path

import elaunch

OUT = Path(os.environ["OUT"])
NAME = f"{os.environ['ELAUNCH_GENERATION']}-{os.environ['RANK']}"

elaunch.should_stop()  # from now on elaunch knows that this program listens
(OUT / f"{NAME}.started").write_text(os.environ["WORLD_SIZE"])
while not elaunch.should_stop():
    if (OUT / "stop").exists():
        raise SystemExit(0)
    time.sleep(0.05)
left = elaunch.time_left()
(OUT / f"{NAME}.told").write_text(str(left))
time.sleep(float(os.environ["SAVING"]))
(OUT / f"{NAME}.saved").touch()
