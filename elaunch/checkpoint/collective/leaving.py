"""What a process waits for when its program has ended: saves that are in flight.

Python waits for their threads by itself. Done within a section, that wait is no hang.
"""

from __future__ import annotations

import os
import threading

import elaunch

_saves: list[tuple[threading.Event, float]] = []
_registered = False


def expect(done: threading.Event, seconds: float) -> None:
    """A save has begun: it is ``done`` within so many seconds, also if the program ends before."""
    global _registered
    _saves[:] = [save for save in _saves if not save[0].is_set()] + [(done, seconds)]
    if not _registered:
        _registered = True
        # What concurrent.futures uses as well: atexit is too late, it comes after the wait for threads.
        if (register := getattr(threading, "_register_atexit", None)) is not None:
            register(_leave)


def _leave() -> None:
    for done, seconds in list(_saves):
        if not done.is_set():
            with elaunch.section("checkpoint save", timeout=seconds):
                done.wait(seconds)


os.register_at_fork(after_in_child=_saves.clear)  # whose saves these are, and their threads, is the parent's matter
