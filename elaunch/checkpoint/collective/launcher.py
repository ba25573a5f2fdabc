"""What a checkpointer hears from the launcher, and tells it. Without elaunch it tells Python's log."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Protocol

from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.collective.restoring import Wish
from elaunch.checkpoint.records.claims import Owner

_log = logging.getLogger("elaunch.checkpoint")


class Launcher(Protocol):
    """The side of the launcher."""

    def owner(self) -> Owner:
        """Who this process is."""

    def wish(self) -> Wish | None:
        """What the plan of this generation says is to be restored; None where nobody plans."""

    def committed(self, outcome: Outcome, path: str) -> None:
        """A save was committed: recorded, if the generation still stands. On rank 0."""

    def restoring(self, step: int, path: str) -> None:
        """A checkpoint is about to be read: should that end the program, it is known what did. On rank 0."""

    def missing(self, step: int, sentence: str) -> None:
        """The step that was wished for cannot be restored. On rank 0."""

    def restored(self, step: int, path: str) -> None:
        """What this start goes on from; step -1 where it starts from nothing. On rank 0."""

    def tell(self, kind: str, sentence: str) -> None:
        """An event that an operator should see."""


class NoLauncher:
    """A program that torchrun, or nobody, has started."""

    def owner(self) -> Owner:
        return Owner(
            job="", incarnation="", generation=0, host=socket.gethostname(), pid=os.getpid(), since=time.time()
        )

    def wish(self) -> Wish | None:
        return None

    def committed(self, outcome: Outcome, path: str) -> None:
        _log.info("step %d is committed at %s", outcome.step, path)

    def restoring(self, step: int, path: str) -> None:
        _log.debug("step %d is read from %s", step, path)

    def missing(self, step: int, sentence: str) -> None:
        _log.error("step %d cannot be restored: %s", step, sentence)

    def restored(self, step: int, path: str) -> None:
        _log.info("step %d was restored from %s", step, path)

    def tell(self, kind: str, sentence: str) -> None:
        _log.warning("%s: %s", kind, sentence)
