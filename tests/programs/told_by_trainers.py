"""What the programs of the trainers share: a line for each thing that a rank sees, and a fault at a certain step."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import elaunch

HERE = elaunch.context()
OUT = Path(os.environ["OUT"])
STEPS, KILL_AT = 160, 13


def say(event: str, **values: object) -> None:
    """A line in this rank's file of this generation."""
    line = {"event": event, "generation": HERE.generation, "rank": HERE.rank, "t": time.time(), **values}
    with (OUT / f"rank-{HERE.rank}-{HERE.generation}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def pace(step: int) -> None:
    """So slow that a test can follow it, until the last generation; rank 1 of the first one dies."""
    if HERE.generation == 1 and HERE.rank == 1 and step == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if HERE.generation < 3:
        time.sleep(0.05 if HERE.generation == 1 else 0.2)
