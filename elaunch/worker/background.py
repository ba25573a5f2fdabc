"""Process groups and threads that work beside the program: a saver's, whose collectives wait for disks, not for ranks.

A rank that waits in one of them is no rank that waits: its main thread trains on, or it does not, and that alone says
how the job is. So such groups are not told of, and what such threads do does not count as the program's.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

_groups: weakref.WeakSet[Any] = weakref.WeakSet()
_threads: set[int] = set()
_declared = 0


def declare(group: Any) -> None:
    """Say that ``group`` is used by background threads only, from now on.

    The main thread must have made the group's first collective before, as torch's flight recorder must not be asked
    while it records a first one, and of background threads it is not known what they are at::

        group = dist.new_group(backend="gloo")
        dist.barrier(group=group)
        background.declare(group)
    """
    global _declared
    _groups.add(group)
    _declared += 1


@contextlib.contextmanager
def thread() -> Iterator[None]:
    """The calling thread uses declared groups only, while the context is open."""
    ident = threading.get_ident()
    _threads.add(ident)
    try:
        yield
    finally:
        _threads.discard(ident)


def declared() -> int:
    """How many groups have ever been declared: whether there is another one."""
    return _declared


def is_background(group: Any) -> bool:
    return group in _groups


def is_background_thread(ident: int) -> bool:
    return ident in _threads


def _forget() -> None:
    """In a forked child only the thread that forked is left."""
    _threads.intersection_update({threading.get_ident()})


os.register_at_fork(after_in_child=_forget)
