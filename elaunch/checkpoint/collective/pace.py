"""How far a long restore is, in one sentence now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY = 10.0  # seconds between two sentences, and before the first


class Pace:
    """Tells ``tell`` of a restore of ``name`` that takes longer than ``EVERY`` seconds, and again after as many."""

    def __init__(self, name: str, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._tell = tell
        self._clock = clock
        self._began = self._told = clock()

    def advance(self, done: int, whole: int) -> None:
        """``done`` of ``whole`` bytes are read."""
        now = self._clock()
        if now < self._told + EVERY or not 0 < done < whole:
            return
        self._told = now
        left = (now - self._began) * (whole - done) / done
        self._tell(
            f"{self._name}: {done / whole:.0%} is read, {done / 1e9:.2f} of {whole / 1e9:.2f} GB on this rank,"
            f" about {left:.0f} s left"
        )
