"""What is looked at when a rank destroys its default process group: whether something is still under way in one."""

from __future__ import annotations

import time

from elaunch.reports import PENDING
from elaunch.worker import ledger
from elaunch.worker.progress import pending

PATIENCE = 0.3  # seconds: what has ended is recorded a little later
_PAUSE = 0.01


def settle() -> None:
    """Wait a little for collectives that are about to end; tell which have not, since torch breaks them off."""
    deadline = time.monotonic() + PATIENCE
    while (left := pending()) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    if left:
        what = ", ".join(f"{group.collective or 'a collective'} of group {group.name}" for group in left[:4])
        ledger.tell(PENDING, f"destroys its process groups with {what} under way, which is broken off")
