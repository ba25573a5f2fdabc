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
    """Writes a new value every ``interval`` seconds, in a thread, until it is released or the process ends."""

    def __init__(self, write: Callable[[bytes], None], remove: Callable[[], None], interval: float = INTERVAL) -> None:
        self._write = write
        self._remove = remove
        self._interval = interval
        self._over = threading.Event()
        self._write(uuid.uuid4().bytes)
        self._thread = threading.Thread(target=self._run, name="elaunch-claim", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Stop; the claim counts as given up at once. Where it cannot be said, others find out by looking."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join(self._interval * MISSED)
        try:
            self._remove()
        except OSError:
            return

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            try:
                self._write(uuid.uuid4().bytes)
            except OSError:
                continue  # the next one may go through; what is missed is what others see


def beats(
    read: Callable[[], bytes | None],
    interval: float = INTERVAL,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bytes | None:
    """None where it changes within ``MISSED`` intervals, or goes; else the value that it keeps, empty for none.

    Blocks for that long at most, and for a read.
    """
    first = read()
    if first is None:
        return b""
    deadline = now() + interval * MISSED
    while True:
        last_look = now() >= deadline
        value = read()
        if value != first:
            return None if value is not None else b""
        if last_look:
            return first
        sleep(interval / 4)
