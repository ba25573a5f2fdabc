"""A checkpointer's launcher where elaunch has started the rank: what the plan says, and word to the controller."""

from __future__ import annotations

import logging
import os
import socket
import time

from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.collective.launcher import Launcher, NoLauncher
from elaunch.checkpoint.collective.restoring import Wish
from elaunch.checkpoint.records.claims import Owner
from elaunch.worker import ledger

COMMIT_SECONDS = 3.0  # for which a save waits for the controller's answer: what comes later is recorded all the same

_log = logging.getLogger("elaunch.checkpoint")


def launcher() -> Launcher:
    """The one that started this process."""
    who = ledger.identity()
    return Elaunch(who) if who is not None else NoLauncher()


class Elaunch:
    """The directory is the truth: what the controller does not hear of, or refuses to record, is restored all the same
    where nothing newer is there. Its own fence is the directory's claim.
    """

    def __init__(self, who: ledger.Identity) -> None:
        self._who = who

    def owner(self) -> Owner:
        who = self._who
        return Owner(who.job, who.incarnation, who.generation, socket.gethostname(), os.getpid(), time.time())

    def wish(self) -> Wish | None:
        point = ledger.restore_point()
        return Wish(point.step, frozenset(point.avoid), point.rewinds)

    def committed(self, outcome: Outcome, path: str) -> None:
        record = ledger.Commit(outcome.step, path, outcome.digest, outcome.size, outcome.seconds, outcome.blocked)
        verdict = ledger.commit(record, COMMIT_SECONDS)
        if not verdict.accepted:
            _log.warning("step %d is committed at %s, and not recorded: %s", outcome.step, path, verdict.reason)

    def restoring(self, step: int, path: str) -> None:
        ledger.restoring(step, path)

    def restored(self, step: int, path: str) -> None:
        ledger.restored(step, path)

    def missing(self, step: int, sentence: str) -> None:
        ledger.missing(step, sentence)

    def tell(self, kind: str, sentence: str) -> None:
        _log.warning("%s: %s", kind, sentence)
        ledger.tell(kind, sentence)
