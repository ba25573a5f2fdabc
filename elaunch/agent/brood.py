"""All children of the spawner process: who they are, how they end, and whether any is left.

Every rank, and the host of the store, is a child of this process; whatever they orphan becomes its child too
(child-subreaper). So "no child left but standbys" means that nothing of a generation is left.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from elaunch.agent import trees
from elaunch.agent.children import Child
from elaunch.agent.protocol import Message
from elaunch.agent.standbys import Standbys
from elaunch.agent.start import STORE


@dataclass(slots=True)
class Brood:
    """``tell`` hears of every rank's end, and of that of the store's host (local rank ``STORE``).

    ``start`` is the number of the start that all of them belong to: there are never those of two.
    """

    tell: Callable[[Message], None]
    standbys: Standbys
    poller: select.poll = field(default_factory=select.poll)
    ranks: dict[int, Child] = field(default_factory=dict)
    store: Child | None = None
    start: int = 0
    _reaped: int = 0

    def add_rank(self, local_rank: int, child: Child) -> None:
        self.ranks[local_rank] = child
        self.poller.register(child.pidfd, select.POLLIN)

    def add_store(self, child: Child) -> None:
        self.store = child
        self.poller.register(child.pidfd, select.POLLIN)

    def spared(self) -> set[int]:
        """The pids that a stop leaves alone while programs run: the standbys' and the store's."""
        return self.standbys.pids() | ({self.store.pid} if self.store else set())

    def left(self) -> bool:
        """Whether anything is left but standbys; at times it is said though nothing is, never the reverse.

        Each process that is left descends from a child of this one that is no standby, since orphans become our
        children. Either we see that child, or it ends while we look: then there is something to reap.
        """
        if self.ranks or self.store is not None:
            return True
        if not self.reap():
            return False
        reaped, spared = self._reaped, self.standbys.pids()
        if not spared or not spared.issuperset(trees.children(os.getpid())):
            return True
        return self.reap() and self._reaped != reaped

    def reap(self) -> bool:
        """Reap all that has ended, adopted orphans included. False when there is no child left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._reaped += 1
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, exit_code: int) -> None:
        if self.standbys.ended(pid):
            return
        who = next((rank for rank, child in self.ranks.items() if child.pid == pid), None)
        child = self.ranks.pop(who) if who is not None else None
        if self.store is not None and self.store.pid == pid:
            who, child, self.store = STORE, self.store, None
        if child is None:
            return
        self.poller.unregister(child.pidfd)
        os.close(child.pidfd)
        told = {"local_rank": who, "pid": pid, "exit_code": exit_code, "time": time.time()}
        self.tell({"start": self.start, **told})

    def forget(self) -> None:
        """In a forked child: close what belongs to the parent."""
        for child in (*self.ranks.values(), *([self.store] if self.store else [])):
            os.close(child.pidfd)
        self.standbys.forget()
