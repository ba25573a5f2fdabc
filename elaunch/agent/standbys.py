"""Children forked before they are needed: each waits for the word that makes it a rank or the store's host.

Until then it holds nothing of a generation and has run nothing of the user's. So a stop spares the standbys,
and where there is any doubt about one, it is thrown away and a child is forked as if there were none.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from elaunch.agent import children
from elaunch.agent.children import Child
from elaunch.agent.pages import gathering
from elaunch.agent.protocol import Channel, Message, frame

_AFTER_START_SECONDS = 0.3  # by then ranks are through the busiest part of their start, and few have failed
_BEFORE_GATHERING_SECONDS = 1.0  # that takes longer than the forks: it would be in the way of a slow start
_AFTER_DEATH_SECONDS = 30.0

Surroundings = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Standby:
    """A waiting child, the socket on which it is told what to become, and where it was forked."""

    child: Child
    socket: socket.socket
    surroundings: Surroundings

    def release(self, order: Message, fds: Sequence[int]) -> bool:
        """Have it become what ``order`` says. False if it cannot be; then it must be discarded."""
        data = frame(order)
        try:
            return socket.send_fds(self.socket, [data], list(fds)) == len(data)
        except OSError:  # it is dead, or the order is larger than the socket takes at once
            return False

    def clean(self) -> bool:
        """Whether it is alive, and no signal waits: it would reach the rank, which it was not sent to."""
        try:
            with open(f"/proc/{self.child.pid}/status") as file:
                status = dict(line.rstrip("\n").split(":", 1) for line in file)
        except OSError:
            return False
        pending = any(int(status[name], 16) for name in ("SigPnd", "ShdPnd"))
        return not pending and status["State"].strip()[0] in "RSD"

    def close(self) -> None:
        self.socket.close()


@dataclass(slots=True)
class Standbys:
    """The standbys of the spawner process: as many as it last forked ranks, and one for the store's host."""

    fork_at: float = math.inf
    idle: list[Standby] = field(default_factory=list)
    _wanted: int = 0
    _gathering: Iterator[None] = field(default_factory=gathering)
    _gathered: bool = False

    def pids(self) -> set[int]:
        return {standby.child.pid for standby in self.idle}

    def want(self, ranks: int) -> None:
        """``ranks`` were forked just now: have standbys for the next start."""
        self._wanted = ranks + 1 if ranks else 0
        self.fork_at = time.monotonic() + (_AFTER_START_SECONDS if self._gathered else _BEFORE_GATHERING_SECONDS)

    def pause(self) -> None:
        """Fork no more before the next start."""
        self.fork_at = math.inf

    def review(self) -> None:
        """Discard those that must not become anything."""
        now = _surroundings()
        for standby in list(self.idle):
            if standby.surroundings != now or not standby.clean():
                self.idle.remove(standby)
                self._discard(standby)

    def take(self, order: Message, fds: Sequence[int]) -> Child | None:
        """A standby that becomes what ``order`` says, with these descriptors; None where there is none.

        They must have been reviewed just now.
        """
        while self.idle:
            standby = self.idle.pop(0)
            if standby.release(order, fds):
                standby.close()
                return standby.child
            self._discard(standby)
        return None

    def ended(self, pid: int) -> bool:
        """Forget the standby of this pid, which has ended; False if it is none."""
        dead = next((standby for standby in self.idle if standby.child.pid == pid), None)
        if dead is None:
            return False
        self.idle.remove(dead)
        dead.close()
        os.close(dead.child.pidfd)
        if self.fork_at == math.inf:
            self.fork_at = time.monotonic() + _AFTER_DEATH_SECONDS
        return True

    def kill(self) -> None:
        """End all of them, for good."""
        self._wanted = 0
        self.pause()
        while self.idle:
            self._discard(self.idle.pop())

    def prepare(self, dispositions: children.Dispositions) -> Channel | None:
        """Take one step, now that it is time: fork one if one is wanting. In the child: where its order will come."""
        if next(self._gathering, self) is None:
            return None  # one step at a time: the spawner process has others to hear
        self._gathered = True
        self.review()
        while len(self.idle) > self._wanted:
            self._discard(self.idle.pop())
        if len(self.idle) == self._wanted:
            self.pause()
            return None
        parent = os.getpid()
        surroundings = _surroundings()  # as before the fork: a change since then makes it useless, never wrong
        ours, theirs = socket.socketpair()
        try:
            child = children.fork(dispositions.caught)
        except OSError:  # too many processes: starts fork themselves, and say so
            self.pause()
            theirs.close()
            ours.close()
            return None
        if child is None:
            children.detach(parent)
            children.retitle([sys.executable, "elaunch-standby"])
            ours.close()
            return Channel(theirs)
        theirs.close()
        ours.setblocking(False)
        self.idle.append(Standby(child, ours, surroundings))
        return None

    def forget(self) -> None:
        """In a forked child: close what belongs to the parent."""
        for standby in self.idle:
            standby.close()
            os.close(standby.child.pidfd)
        self.idle.clear()

    def _discard(self, standby: Standby) -> None:
        """It is reaped with the strays of the ranks."""
        standby.child.signal(signal.SIGKILL)
        standby.close()
        os.close(standby.child.pidfd)


def await_order(channel: Channel) -> tuple[Message, list[int]]:
    """In a standby: wait for the word, and return it with the descriptors that came along. Ends if none can come."""
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    while True:
        poller.poll()
        for order in channel.receive():
            fds = [channel.take_fd() for _ in range(order["fds"])]
            channel.close()
            return order, fds
        if channel.eof:
            os._exit(0)


def _surroundings() -> Surroundings:
    """What a child takes over at its fork and others can change afterwards: the limits and shares of this process."""
    texts = []
    for name in ("limits", "cgroup", "oom_score_adj"):
        try:
            with open(f"/proc/self/{name}", "rb") as file:
                texts.append(file.read())
        except OSError:
            texts.append(b"")
    return (*texts, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.getcwd())
