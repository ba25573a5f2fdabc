"""The pages over which ranks are told what to do to themselves: those of one generation, and what is armed for it.

What a rank has not come to in one generation stays armed in the next: its point may be one that comes but once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from elaunch.inject.fault import Fault
from elaunch.inject.page import INJECT, InjectPage

UNDONE = "undone"
_ENDLESS = ("lock", "mismatch")  # within C, where nobody is heard


@dataclass(slots=True)
class Armed:
    """A fault that a rank is to do to itself, and how far it is. ``number`` is that of its rank's page."""

    id: str
    fault: Fault
    number: int = 0
    began: bool = False
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """A fault has begun, or is over (``ended``, with what is to be said of it)."""

    armed: Armed
    ended: bool
    text: str = ""


class InjectPages:
    """One page for each local rank; ``news`` hears of what ranks did, before anybody hears of what came of it.

    ``spare`` is to hear the pid of a process of the agent's that is no rank's.
    """

    def __init__(self) -> None:
        self.news: Callable[[News], None] = lambda _: None
        self.spare: Callable[[int], None] = lambda _: None
        self.armed: dict[int, Armed] = {}
        self._pages: dict[int, tuple[InjectPage, int]] = {}
        self._rank0 = 0

    def open(self, rank0: int, count: int) -> None:
        """Pages for ``count`` ranks from ``rank0`` on; the ranks of the last ones are gone. Raises OSError."""
        self.close()
        self._rank0 = rank0
        self._pages = {rank0 + n: InjectPage.make() for n in range(count)}
        for rank, armed in list(self.armed.items()):
            if armed.withdrawn:
                self._over(rank, UNDONE)
            elif rank not in self._pages:
                self._over(rank, "its rank is not here any more")
            else:
                armed.number = self._pages[rank][0].arm(armed.fault)

    def env(self, local_rank: int) -> dict[str, str]:
        """What tells a rank where its page is."""
        found = self._pages.get(self._rank0 + local_rank)
        return {INJECT: f"/proc/{os.getpid()}/fd/{found[1]}"} if found is not None else {}

    def arm(self, id: str, fault: Fault) -> str:
        """Have a rank do it when it comes to the point; why not, "" where that is so."""
        found = self._pages.get(fault.rank)
        if found is None:
            return f"no rank {fault.rank} runs here"
        self.look()
        if (old := self.armed.get(fault.rank)) is not None and old.withdrawn:
            self.withdrawn(old)
        if fault.rank in self.armed:
            return f"rank {fault.rank} has another fault that is not over: {self.armed[fault.rank].fault}"
        self.armed[fault.rank] = Armed(id, fault, found[0].arm(fault))
        return ""

    def look(self) -> None:
        """Hear what the ranks have done since the last look."""
        for rank, armed in list(self.armed.items()):
            page = self._pages[rank][0] if rank in self._pages else None
            if page is None:
                continue
            if not armed.began and page.fired == armed.number:
                armed.began = True
                self.news(News(armed, False))
            if page.done == armed.number:
                self._over(rank, UNDONE if armed.withdrawn else page.note)

    def withdraw(self, armed: Armed) -> bool:
        """Have its rank not do it, or no longer; False where it has begun and cannot end.

        The rank may be about to begin it: some time later ``withdrawn`` is to be called.
        """
        self.look()
        if armed.began and armed.fault.kind in _ENDLESS:
            return False
        armed.withdrawn = True
        if self.armed.get(armed.fault.rank) is armed and armed.fault.rank in self._pages:
            self._pages[armed.fault.rank][0].arm(None)
        return True

    def withdrawn(self, armed: Armed) -> None:
        """It is over, whatever the rank had begun."""
        self.look()
        if self.armed.get(armed.fault.rank) is armed:
            endless = armed.began and armed.fault.kind in _ENDLESS
            self._over(armed.fault.rank, "it had just begun, and ends with its rank" if endless else UNDONE)

    def release(self, armed: Armed) -> None:
        """The rank was stopped at its point, as ``armed`` wants it, and goes on."""
        if self.armed.get(armed.fault.rank) is armed:
            self._pages[armed.fault.rank][0].released = armed.number

    def ended(self, rank: int) -> None:
        """The rank's process has ended: what had begun in it is over."""
        self.look()
        if rank in self.armed and self.armed[rank].began:
            self._over(rank, "the rank has ended")

    def close(self) -> None:
        """Let go of the pages; what had begun is over, with its ranks."""
        for rank in list(self.armed):
            self.ended(rank)
        for page, fd in self._pages.values():
            page.close()
            os.close(fd)
        self._pages = {}

    def _over(self, rank: int, text: str) -> None:
        self.news(News(self.armed.pop(rank), True, text))
