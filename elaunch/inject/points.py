"""Inside of a rank: the program reaches a point, and a fault that is armed for it happens there.

Nothing is imported or looked at in a job that was started without ``--allow-injection``: ``reached`` returns at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.inject.watching import Watch

_watch: Watch | None = None


def reached(point: str, step: int = -1) -> None:
    """The program is at ``point``; ``step`` where it says at which step. A fault may happen before this returns."""
    if _watch is not None:
        _watch.reached(point, step)


def watch() -> Watch | None:
    """This rank's watch; None where nothing can be injected into it."""
    return _watch


def begin(path: str) -> None:
    """In the process that is the rank: look out for faults from now on, if ``path`` is a page of its agent."""
    global _watch
    from elaunch.inject.page import InjectPage
    from elaunch.inject.watching import Watch

    if _watch is not None:
        return
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _watch = Watch(InjectPage(fd))
    except (OSError, ValueError):
        return
    finally:
        os.close(fd)


def _forget() -> None:
    """In a forked child: it is no rank."""
    global _watch
    _watch = None


os.register_at_fork(after_in_child=_forget)
