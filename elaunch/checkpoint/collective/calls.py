"""Whose turn it is: a checkpointer's calls come one after another, from the process that made it, until it is closed.

Two saves at once would write the image of one while the other copies into it, and what was committed would be neither.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from elaunch.errors import CheckpointError


class Calls:
    """The calls of one checkpointer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pid = os.getpid()
        self._busy = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the checkpointer: nothing of it is the child's."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """From now on none is taken."""
        self._closed = True

    @contextlib.contextmanager
    def turn(self, call: str) -> Iterator[None]:
        """While ``call`` is carried out. Raises CheckpointError where it may not be."""
        if self.forked:
            raise CheckpointError(f"{call}: this is a forked child (pid {os.getpid()}) of the process that made it")
        if self._closed:
            raise CheckpointError(f"{self._url}: this Checkpointer is closed; make a new one to go on with")
        if not self._busy.acquire(blocking=False):
            raise CheckpointError(
                f"{call}: another call of this rank has not returned; call it from one thread, and set a flag in "
                "signal handlers"
            )
        try:
            yield
        finally:
            self._busy.release()
