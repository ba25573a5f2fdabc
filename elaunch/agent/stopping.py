"""The stop of everything below the spawner process but the store's host: a signal, a grace, SIGKILL."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from elaunch.agent.protocol import Message
from elaunch.agent.trees import Process, below, process, send

_FIRST_LOOK_SECONDS = 0.004
_LONGEST_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class Stopping:
    """One stop in progress. ``kill_at`` is when patience ends, on the monotonic clock.

    ``ending``: no process of the trees runs its program any more.
    """

    signum: int
    kill_at: float
    poller: select.poll
    bound: float
    waiting: list[Message] = field(default_factory=list)
    wake_at: float = 0.0
    ending: bool = False
    left: list[Process] = field(default_factory=list)
    _signalled: set[tuple[int, int]] = field(default_factory=set)
    _watched: dict[tuple[int, int], int] = field(default_factory=dict)
    _pause: float = _FIRST_LOOK_SECONDS

    def hurry(self, kill_at: float) -> None:
        """Kill at ``kill_at`` if that is earlier than what was meant."""
        if kill_at < self.kill_at:
            self.kill_at = kill_at
            self.wake_at = kill_at

    def given_up(self, now: float) -> bool:
        """Whether what is left outlives SIGKILL: a process in uninterruptible sleep cannot be waited for."""
        return bool(self.left) and now >= self.kill_at + self.bound

    def tell(self, pids: Iterable[int], now: float) -> None:
        """Signal these already, before the first look at the trees."""
        for pid in pids:
            p = process(pid)
            if p is not None:
                self._tell(p, now)

    def advance(self, now: float, root: int, spare: Collection[int]) -> None:
        """Look at the trees, and signal what has not been told yet."""
        self.left = below(root, spare)
        self.ending = all(p.exiting for p in self.left)
        for p in self.left:
            self._tell(p, now)
        self._watch()
        self.wake_at = now + self._pause
        if now < self.kill_at:
            self.wake_at = min(self.wake_at, self.kill_at)
            self._pause = min(self._pause * 1.5, _LONGEST_LOOK_SECONDS)
        else:
            self._pause = _FIRST_LOOK_SECONDS

    def forget(self) -> None:
        """Close what was opened to watch."""
        for pidfd in self._watched.values():
            self.poller.unregister(pidfd)
            os.close(pidfd)
        self._watched.clear()

    def _tell(self, p: Process, now: float) -> None:
        if now >= self.kill_at or p.stopped:
            send(p, signal.SIGKILL)
        elif (p.pid, p.started) not in self._signalled:
            self._signalled.add((p.pid, p.started))
            send(p, self.signum)

    def _watch(self) -> None:
        """Have the loop woken when one of those that are left ends."""
        left = {(p.pid, p.started) for p in self.left}
        for key in self._watched.keys() - left:
            pidfd = self._watched.pop(key)
            self.poller.unregister(pidfd)
            os.close(pidfd)
        for key in left - self._watched.keys():
            try:
                pidfd = os.pidfd_open(key[0])
            except ProcessLookupError:
                continue
            self._watched[key] = pidfd
            self.poller.register(pidfd, select.POLLIN)
