"""A save behind the training, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from elaunch.checkpoint.collective.committing import Outcome, Save
from elaunch.checkpoint.collective.ranks import rounds
from elaunch.checkpoint.storages.failures import describe, line
from elaunch.errors import CheckpointError

_log = logging.getLogger("elaunch.checkpoint")


class Pending:
    """A save that is in flight, in a thread that keeps the process from ending before it."""

    def __init__(self, save: Save, settled: Callable[[Outcome], None]) -> None:
        self._save = save
        self._settled = settled
        self._outcome = Outcome(save.step, error="the save ended without an outcome")
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="elaunch-checkpoint", daemon=False)

    def start(self) -> None:
        """Go on behind the training."""
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending: others wait for this rank
            self._run()

    def result(self) -> Outcome:
        """Wait for it. Every step of it has a deadline of its own."""
        if self._thread.ident is not None:  # it could be started
            self._thread.join()
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._ended()
            self._settled(self._outcome)
        finally:
            self.done.set()

    def _ended(self) -> Outcome:
        """What became of it. This is the outermost of its thread: nothing ends in silence, or leaves others waiting."""
        try:
            with rounds(self._save.ranks):
                return self._save.run()
        except CheckpointError as error:
            return Outcome(self._save.step, error=describe(error))
        except Exception as error:  # noqa: BLE001
            _log.exception("the save of step %d ended by an error that nobody foresaw", self._save.step)
            return Outcome(self._save.step, error=line(error))
