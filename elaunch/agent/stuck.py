"""Ranks in uninterruptible sleep (``TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT``): a driver or a disk that hangs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from elaunch.agent import trees

TIMEOUT = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
_LOOK_SECONDS = 1.0


def timeout_of(environ: Mapping[str, str]) -> float:
    """Seconds that a rank may be in uninterruptible sleep; 0 where that is not looked at."""
    try:
        value = float(environ.get(TIMEOUT, ""))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


class Dwell:
    """Since when each process has been in uninterruptible sleep, at every look. Pure."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: dict[int, float] = {}

    def look(self, states: Mapping[int, str], now: float) -> dict[int, float]:
        """The processes that have been stuck for the timeout, and for how long; ``states`` are /proc's letters."""
        self._since = {pid: self._since.get(pid, now) for pid, state in states.items() if state == "D"}
        return {pid: now - since for pid, since in self._since.items() if now - since >= self._timeout}


async def watch_stuck(timeout: float, pids: Callable[[], Mapping[int, int]], tell: Callable[[int, str], None]) -> None:
    """Look at the ranks (pid by local rank) until cancelled; ``tell`` the local rank and why, once for each pid.

    Returns at once where ``timeout`` is 0.
    """
    if not timeout:
        return
    dwell = Dwell(timeout)
    told: set[int] = set()
    while True:
        await asyncio.sleep(min(_LOOK_SECONDS, timeout / 2))
        ranks = {pid: local_rank for local_rank, pid in pids().items()}
        processes = map(trees.process, ranks)
        stuck = dwell.look({p.pid: p.state for p in processes if p is not None}, time.monotonic())
        for pid in stuck.keys() - told:
            told.add(pid)
            tell(ranks[pid], f"pid {pid} was in uninterruptible sleep (D state) for {stuck[pid]:.0f} s ({TIMEOUT})")
