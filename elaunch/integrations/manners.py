"""What every callback does alike: open sections by name, and ask for notice at times that all ranks share."""

from __future__ import annotations

import os
import signal
import threading

import elaunch


class Sections:
    """Sections that one hook opens and another closes. A name is open once at most."""

    def __init__(self) -> None:
        self._open: dict[str, elaunch.section] = {}

    def enter(self, name: str, timeout: float | None) -> None:
        """``timeout`` in seconds, None: only the name is told."""
        if name not in self._open:
            self._open[name] = elaunch.section(name, timeout)
            self._open[name].__enter__()

    def leave(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name).__exit__(None, None, None)

    def clear(self) -> None:
        for name in list(self._open):
            self.leave(name)


class Notice:
    """Whether the ranks were told to stop, asked at every ``every``-th step and agreed on by all: a collective."""

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"check_every={every}: expected a number of steps from 1")
        self._every = every
        self._asked = 0
        self.given = False

    def now(self) -> bool:
        """Asked once a step: true on all ranks at the same step, once any of them was given notice."""
        self._asked += 1
        if not self.given and self._asked % self._every == 0 and elaunch.context().launched:
            self.given = elaunch.should_stop(agree=True)
        return self.given


def spare_from_scheduler() -> None:
    """Put back what a library has set for SIGTERM, where a scheduler sends it to ranks too: elaunch gives notice."""
    here = threading.current_thread() is threading.main_thread()
    if here and elaunch.context().launched and "ELAUNCH_SCHEDULER" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        elaunch.should_stop()
