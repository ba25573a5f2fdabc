"""A scheduler's SIGTERM is to every process of a job step: a program that listens for notice has to live through it.

Its agent gets the signal too, and gives notice. As nothing but SIGTERM's default, death, is put aside, the agent ends
such a rank by SIGKILL where it would have sent it SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading

from elaunch.progress_page import Page

_spared = False


def spare(page: Page) -> None:
    """Have SIGTERM do nothing to this rank, where a scheduler started its agent and the program does not handle it."""
    global _spared
    if "ELAUNCH_SCHEDULER" not in os.environ or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _spared = True
        page.spared = 1


def _forget() -> None:
    """A forked child, a worker of a data loader say, is ended by SIGTERM as ever."""
    global _spared
    if _spared and signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _spared = False


os.register_at_fork(after_in_child=_forget)
