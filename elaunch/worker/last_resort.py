"""A rank ends by itself when its node's lease is about to end and neither agent nor spawner process has ended it.

Both may be frozen (SIGSTOP to all but the ranks, a debugger): the others will start the next generation, and a rank of
the last one must not run beside it. What would have killed it was due before: no rank ends that was to live on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from elaunch.clock import boottime
from elaunch.deadline_page import DEADLINE, DeadlinePage

_SAID = b"elaunch: this node's lease ends, and its agent does not run: the rank ends before others go on without it\n"


class LastResort:
    """Reads the agent's page; looks at nothing where there is none, or its clock seems to be another."""

    def __init__(self) -> None:
        self._page = DeadlinePage.of_agent(os.environ.get(DEADLINE, ""))
        if self._page is not None and self._page.last <= boottime():
            self._page = None

    def look(self) -> None:
        """End this process if the last deadline has passed."""
        if self._page is None or boottime() < self._page.last:
            return
        with contextlib.suppress(OSError, ValueError):
            if select.select([], [2], [], 0)[1]:  # whoever reads it may be frozen as well
                os.write(2, _SAID)
        os.kill(os.getpid(), signal.SIGKILL)
