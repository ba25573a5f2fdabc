"""What a job's time goes into. Values only: accounts and times in, accounts out.

At each moment one activity goes on, and nothing is counted twice: the parts always add up to the whole. What is known
only later (that a hang went unseen for a minute, that work was lost with a rank) is booked over from what it had been
taken for. Times are wall-clock seconds of the leaders, one after the other; a clock that goes back costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from elaunch.rendezvous.memory import Accounts

WAITING: Final = "waiting"
DETECTION: Final = "detection"
ABORT: Final = "abort"
RENDEZVOUS: Final = "rendezvous"
START: Final = "start"
RESTORE: Final = "restore"
FIRST_STEP: Final = "first_step"
LOST_WORK: Final = "lost_work"
USEFUL: Final = "useful"
OVER: Final = "over"

PHASES: Final = (WAITING, DETECTION, ABORT, RENDEZVOUS, START, RESTORE, FIRST_STEP)
"""The phases of a recovery, in their order."""
CAUSES: Final = (*PHASES, LOST_WORK)
"""What time that is not useful goes into."""
MEANING: Final = {
    WAITING: "too few nodes are there",
    DETECTION: "something has failed or hangs, and nobody knows yet",
    ABORT: "the ranks of the old generation are being stopped",
    RENDEZVOUS: "the next generation is being planned",
    START: "ranks start, import, and make their process groups",
    RESTORE: "ranks restore a checkpoint",
    FIRST_STEP: "ranks are up, and have not come to their first step",
    LOST_WORK: "work that was in no checkpoint when its generation ended, and is done again",
}


@dataclass(frozen=True, slots=True)
class Goodput:
    """``useful`` of ``total`` seconds, and what the rest went into: the parts of ``lost`` are the difference."""

    total: float
    useful: float
    lost: Mapping[str, float]

    @property
    def ratio(self) -> float | None:
        """The useful part; None before any time has passed."""
        return ratio(self.useful, self.total)


def ratio(useful: float, total: float) -> float | None:
    """The useful part of the time; None before any has passed."""
    return min(1.0, useful / total) if total > 0 else None


def opened(wall: float) -> Accounts:
    """The accounts of a job that begins to wait for its nodes now."""
    return Accounts(since=wall, until=wall, began=wall, activity=WAITING)


def moved(accounts: Accounts, activity: str, wall: float) -> Accounts:
    """From ``wall`` on ``activity`` goes on; the time until then is booked to what went on before.

    After a job that is over has begun again, the time between does not count.
    """
    if activity == accounts.activity:
        return accounts
    wall = max(wall, accounts.until)
    if accounts.activity == OVER:
        since = accounts.since + wall - accounts.until
        return replace(accounts, since=since, until=wall, began=wall, activity=activity)
    return replace(settled(accounts, wall), activity=activity, began=wall)


def rebooked(accounts: Accounts, source: str, target: str, seconds: float, wall: float) -> Accounts:
    """``seconds`` that were taken for ``source`` were ``target``; as many at most as ``source`` has at ``wall``."""
    if seconds <= 0 or source == target:
        return accounts
    if source == accounts.activity:
        accounts = settled(accounts, max(wall, accounts.until))
    seconds = min(seconds, accounts.seconds.get(source, 0.0))
    if seconds <= 0:
        return accounts
    booked = dict(accounts.seconds)
    booked[source] -= seconds
    booked[target] = booked.get(target, 0.0) + seconds
    return replace(accounts, seconds=booked)


def restarted(accounts: Accounts, reason: str) -> Accounts:
    """One more restart, for ``reason``."""
    return replace(accounts, restarts={**accounts.restarts, reason: accounts.restarts.get(reason, 0) + 1})


def by_activity(accounts: Accounts, wall: float) -> dict[str, float]:
    """Seconds of each activity up to ``wall``."""
    return dict(settled(accounts, max(wall, accounts.until)).seconds)


def goodput(accounts: Accounts, wall: float) -> Goodput:
    """How well the time was used up to ``wall``."""
    seconds = by_activity(accounts, wall)
    useful = seconds.pop(USEFUL, 0.0)
    return Goodput(useful + sum(seconds.values()), useful, {cause: seconds.get(cause, 0.0) for cause in CAUSES})


def settled(accounts: Accounts, wall: float) -> Accounts:
    """With the time up to ``wall`` booked. What is booked to a cause is never taken back, whatever clock comes next."""
    passed = wall - accounts.until
    if passed <= 0 or accounts.activity == OVER:
        return accounts
    before = accounts.seconds.get(accounts.activity, 0.0)
    return replace(accounts, until=wall, seconds={**accounts.seconds, accounts.activity: before + passed})
