"""What a process does at the death of the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def wake_when_parent_ends() -> None:
    """Have the kernel send SIGCONT to this process when its parent ends.

    It hears of that end by a socket too; but one that is stopped (SIGSTOP) hears nothing, and what it looks after would
    live on. Raises OSError.
    """
    _at_the_end_of_the_parent(signal.SIGCONT)


def end_with_parent(parent: int) -> bool:
    """Have the kernel send SIGTERM to this process when the thread that started it ends. Raises OSError.

    False where the process ``parent`` has ended already.
    """
    _at_the_end_of_the_parent(signal.SIGTERM)
    return os.getppid() == parent


def _at_the_end_of_the_parent(signum: signal.Signals) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
