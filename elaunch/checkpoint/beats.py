"""A sign of life where there are no locks: an object that its owner writes anew, again and again.

No clock is compared with another's: whoever wants to know looks twice, and sees whether the object has changed.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

INTERVAL = 2.0
MISSED = 4  # intervals without a change: the owner is gone


class Beat:
    """Writes a new value every ``INTERVAL`` seconds, in a thread, until it is released or the process ends."""

    def __init__(self, write: Callable[[bytes], None], remove: Callable[[], None], interval: float = INTERVAL) -> None:
        self._write = write
        self._remove = remove
        self._interval = interval
        self._over = threading.Event()
        self._write(uuid.uuid4().bytes)
        self._thread = threading.Thread(target=self._run, name="elaunch-claim", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Stop; the claim counts as given up at once."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join(self._interval * MISSED)
            self._remove()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            try:
                self._write(uuid.uuid4().bytes)
            except OSError:
                continue  # the next one may go through; what is missed is what others see


def beats(read: Callable[[], bytes | None], interval: float = INTERVAL) -> bool:
    """Whether it changes within ``MISSED`` intervals. Blocks for that long at most."""
    first = read()
    if first is None:
        return False
    deadline = time.monotonic() + interval * MISSED
    while time.monotonic() < deadline:
        time.sleep(interval / 4)
        now = read()
        if now != first:
            return now is not None
    return False
