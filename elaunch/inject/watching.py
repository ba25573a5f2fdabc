"""What is armed for a rank, and whether its point has come; in the rank itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from elaunch.inject import acts
from elaunch.inject.fault import Fault
from elaunch.inject.kinds import STEP
from elaunch.inject.page import InjectPage


class Watch:
    """What is armed for this rank, and whether its point has come. ``step`` is the program's, -1 before the first."""

    def __init__(self, page: InjectPage, clock: Callable[[], float] = time.monotonic) -> None:
        self.step = -1
        self.told = False  # the program says at which step it is
        self._page = page
        self._clock = clock
        self._lock = threading.RLock()  # a save goes on in a thread of its own
        self._number = 0
        self._fault: Fault | None = None
        self._count = 0
        self._until: float | None = None
        self._held: list[bytearray] = []

    def reached(self, point: str, step: int = -1) -> None:
        """The program is at ``point``."""
        if step >= 0:
            self.step, self.told = step, True
        if (fault := self.due(point)) is not None:
            self.act(fault)

    def count(self, steps: int) -> None:
        """So many steps of an optimizer are over, in a program that tells none."""
        self.step = steps
        self.reached(STEP)

    def due(self, point: str) -> Fault | None:
        """The fault that is to happen at ``point`` now; it has begun then."""
        if self._page.armed == self._number and self._fault is None:
            return None
        with self._lock:
            if self._page.armed != self._number:
                self._take()
            fault = self._fault
            if fault is None or fault.at != point:
                return None
            if self._until is not None:
                return self._again(fault)
            if self.step < fault.step:
                return None
            self._count += 1
            if self._count < fault.nth:
                return None
            return self._fire(fault)

    def act(self, fault: Fault) -> None:
        """Do it, here and now. Raises what the fault raises."""
        number = self._number
        try:
            self._page.note = acts.act(
                fault, self._held, lambda: self._page.released == number or self._page.armed != number
            )
        finally:
            if self._until is None:
                self._page.done = number

    def _take(self) -> None:
        self._number, self._count, self._until = self._page.armed, 0, None
        self._held.clear()
        try:
            self._fault = self._page.fault()
        except ValueError as error:
            self._fault, self._page.note = None, str(error)
            self._page.done = self._number

    def _fire(self, fault: Fault) -> Fault:
        self._page.fired = self._number
        if fault.kind == "slow-step" or (fault.kind == "memory" and fault.bytes):
            self._until = self._clock() + fault.seconds if fault.seconds else float("inf")
        else:
            self._fault = None
        return fault

    def _again(self, fault: Fault) -> Fault | None:
        """What lasts over many passes of its point."""
        if self._until is not None and self._clock() >= self._until:
            self._fault = self._until = None
            self._held.clear()
            self._over()
            return None
        return fault if fault.kind == "slow-step" else None

    def _over(self) -> None:
        self._page.done = self._number
