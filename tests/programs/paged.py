"""Steps without torch, for the web page: a rank hangs in a section, or ends, when a file named after that is there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import elaunch

OUT, RANK = Path(os.environ["OUT"]), os.environ["RANK"]


def asked(what: str) -> bool:
    """Whether it is this rank's turn; once."""
    try:
        (OUT / f"{what}{RANK}").unlink()
    except FileNotFoundError:
        return False
    return True


def load() -> None:
    with elaunch.section("load", timeout=0.5):
        time.sleep(600)


step = 0
while not (OUT / "stop").exists():
    elaunch.step(step)
    step += 1
    time.sleep(0.05)
    if asked("hang"):
        load()
    if asked("fail"):
        sys.exit(7)
