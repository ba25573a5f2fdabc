"""When a job's time changes hands between activities: two states and what is seen of the ranks in, accounts out.

The leader's part of :mod:`elaunch.metrics.goodput`. The seconds of each phase go into the lines of the job's history,
and everything that shows them (the page, the metrics, traces) reads them there or in the accounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from elaunch.controller.history import Entry
from elaunch.controller.job import Job
from elaunch.metrics import goodput as use
from elaunch.rendezvous.memory import Accounts
from elaunch.rendezvous.records import Phase

WORKING = "job_working"
SILENT = 10.0  # seconds after which ranks that run and tell nothing of their start are taken to be at work,
UNGROUPED = 60.0  # and those that have imported torch, and make no process group
BOOKED_EVERY = 60.0  # seconds: each time is a write of the job's state
_SHOWN = 0.05  # seconds: what is shorter would be told as 0.0
_AT_WORK = (Phase.STARTING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of the ranks of the present generation. Times are wall-clock seconds, None for not yet.

    ``step`` is the first step that one told, at ``stepped``; since ``up`` all ranks have their process group;
    ``restoring`` says that one restores a checkpoint. ``patience`` is how many seconds after its start a generation
    that comes neither to a process group nor to a step is taken to be at work.
    """

    step: int = -1
    stepped: float | None = None
    up: float | None = None
    restoring: bool = False
    patience: float = SILENT


@dataclass(frozen=True, slots=True)
class Timed:
    """The accounts after an event, and the seconds of each phase that is over by it, in the order of their ends."""

    accounts: Accounts
    spans: tuple[tuple[str, float], ...] = ()
    working: bool = False


def timed(before: Job, after: Job, seen: Seen, wall: float, unseen: float = 0.0) -> Timed:
    """What of the time up to ``wall`` is to be booked, as the job went from ``before`` to ``after``.

    ``unseen`` are the seconds for which what ended a generation was not noticed.
    """
    book = _Book(before.accounts if before.accounts.since else use.opened(wall))
    left = before.phase in _AT_WORK and not before.uncommitted
    new = after.generation != before.generation
    if left and (new or after.phase not in _AT_WORK):
        well = after.phase is Phase.SUCCEEDED
        book.end(wall, 0.0 if well else unseen)
    if new or (before.phase is Phase.ABORTING and after.phase is Phase.WAITING):
        book.lose(before, wall)
    if new and after.generation > 1 and before.plan is not None:
        book.accounts = use.restarted(book.accounts, after.reason.code)
    if new:
        book.accounts = replace(book.accounts, first_step=-1, working=0.0)
    working = _advance(book, after, seen, wall)
    book.settle(wall)
    return Timed(book.accounts, tuple(book.spans), working)


def _advance(book: _Book, job: Job, seen: Seen, wall: float) -> bool:
    """On to what goes on in ``job``; whether the ranks have come to work just now."""
    if job.phase.final:
        book.move(use.OVER, wall)
    elif job.phase is Phase.ABORTING:
        book.move(use.ABORT, wall)
    elif job.phase is Phase.WAITING:
        book.move(use.WAITING, wall)
    elif job.uncommitted:
        book.move(use.RENDEZVOUS, wall)
    elif job.phase is Phase.STARTING:
        book.move(use.START, wall)
    else:
        return _runs(book, job, seen, wall)
    return False


def _runs(book: _Book, job: Job, seen: Seen, wall: float) -> bool:
    """While a generation runs: from its start over restoring to the first step."""
    accounts = book.accounts
    if accounts.first_step >= 0:
        book.move(use.USEFUL, wall)
        return False
    if seen.stepped is not None:
        if accounts.activity == use.USEFUL:  # as it was taken to be, until the program told a step
            book.rebook(use.USEFUL, use.FIRST_STEP, max(0.0, seen.stepped - accounts.began), wall)
        working = not accounts.working
        book.move(use.USEFUL, seen.stepped)
        book.accounts = replace(book.accounts, first_step=max(0, seen.step), working=seen.stepped)
        return working
    if seen.restoring:
        book.move(use.RESTORE, wall)
    elif accounts.activity == use.RESTORE:
        book.move(use.FIRST_STEP, wall)
    elif accounts.activity == use.START:
        return _is_up(book, job, seen, wall)
    elif accounts.activity not in (use.FIRST_STEP, use.USEFUL):
        book.move(use.START, wall)
    return False


def _is_up(book: _Book, job: Job, seen: Seen, wall: float) -> bool:
    """Out of the start: to the first step where the program has told steps before, else to work."""
    ran = job.ran_since + job.wall_offset if job.ran_since is not None else wall
    if seen.up is not None and job.history.step >= 0:
        book.move(use.FIRST_STEP, seen.up)
    elif seen.up is not None or wall - ran >= seen.patience:
        book.move(use.USEFUL, wall if seen.up is None else seen.up)
        book.accounts = replace(book.accounts, working=book.accounts.began)
        return True
    return False


class _Book:
    """The accounts on their way, and what is over of a recovery's phases."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.spans: list[tuple[str, float]] = []

    def move(self, activity: str, wall: float) -> None:
        before = self.accounts
        self.accounts = use.moved(before, activity, wall)
        if self.accounts.activity != before.activity and before.activity in use.PHASES:
            self.spans.append((before.activity, max(0.0, self.accounts.began - before.began)))

    def rebook(self, source: str, target: str, seconds: float, wall: float) -> None:
        had = self.accounts.seconds.get(target, 0.0)
        self.accounts = use.rebooked(self.accounts, source, target, seconds, wall)
        if target in use.CAUSES and (more := self.accounts.seconds.get(target, 0.0) - had) > 0:
            self.spans.append((target, more))

    def settle(self, wall: float) -> None:
        """Book what goes on, and is not useful, every now and then: its counter is to grow while it does."""
        if self.accounts.activity in use.PHASES and wall - self.accounts.until >= BOOKED_EVERY:
            self.accounts = use.settled(self.accounts, wall)

    def end(self, wall: float, unseen: float) -> None:
        """The generation is at its end, which was not seen for ``unseen`` seconds."""
        if self.accounts.activity == use.USEFUL and unseen > 0:
            self.rebook(use.USEFUL, use.DETECTION, unseen, wall)
        self.accounts = replace(self.accounts, ended=max(0.0, wall - unseen))
        self.move(use.ABORT, wall)

    def lose(self, job: Job, wall: float) -> None:
        """What of the work of the generation that is over is in no checkpoint; of a job that has some."""
        accounts, last = self.accounts, job.checkpoint
        if not accounts.working or not accounts.ended or last is None:
            return
        saved = last.time - last.seconds if last.generation == job.generation else 0.0
        self.rebook(use.USEFUL, use.LOST_WORK, accounts.ended - max(accounts.working, saved), wall)
        self.accounts = replace(self.accounts, ended=0.0)


def working(job: Job, spans: Mapping[str, float]) -> Entry:
    """The line that a generation has come to work, with what its recovery took."""
    phases = {phase: spans[phase] for phase in use.PHASES if phase in spans}
    took = sum(phases.values())
    shown = {phase.replace("_", " "): seconds for phase, seconds in phases.items() if seconds >= _SHOWN}
    parts = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in shown.items())
    at = f" at step {job.accounts.first_step}" if job.accounts.first_step >= 0 else ""
    text = f"generation {job.generation} is at work{at}, after {took:.1f} s{f': {parts}' if parts else ''}"
    return Entry(WORKING, text, job.generation)
