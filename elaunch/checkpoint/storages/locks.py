"""Locks on files, which end with their owner (``flock``): of a claim, of who reads a checkpoint, of who removes one.

On NFS Linux makes byte-range locks of them, which all clients see; a shared one needs a file that may be read, an
exclusive one a file that may be written. A child that is forked, as a data loader's workers are, keeps none: it would
hold what its parent had, though that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # Lustre without -o flock, NFS without a lock service


class FileLock:
    """An open file, and what is locked of it until it is closed."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        _live.add(self)

    def release(self, close: Callable[[int], None] = os.close) -> None:
        """Close the file. ``close`` is still there when the interpreter has taken ``os`` down."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close(fd)

    def __del__(self) -> None:
        self.release()  # of a checkpointer that was dropped, and not closed

    def is_of(self, path: Path) -> bool:
        """Whether the path still leads to this file."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(path))
        except FileNotFoundError:
            return False


_live: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _let_go_of_all() -> None:
    for lock in list(_live):
        lock.release()


os.register_at_fork(after_in_child=_let_go_of_all)


def exclusive(path: Path) -> FileLock | None:
    """Lock a file for this process alone; None where any other has it.

    Raises OSError, also where there are no locks.
    """
    return _locked(path, os.O_RDWR, fcntl.LOCK_EX)


def shared(path: Path) -> FileLock | None:
    """Lock a file against ``exclusive``, together with others; None where one has it exclusively. Raises OSError."""
    return _locked(path, os.O_RDONLY, fcntl.LOCK_SH)


def unlocked(path: Path) -> FileLock:
    """The open file alone. Raises OSError."""
    return FileLock(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def are_missing(error: OSError) -> bool:
    """Whether it says that this file system has no locks."""
    return error.errno in _NO_LOCKS


def _locked(path: Path, how: int, kind: int) -> FileLock | None:
    lock = FileLock(os.open(path, how | os.O_CLOEXEC))
    try:
        fcntl.flock(lock._fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.release()
        return None
    except OSError:
        lock.release()
        raise
    return lock


def to_read(manifest: Path) -> FileLock | None:
    """A lock that all who read have at once; None where one removes it. Without locks one that stands for nothing."""
    try:
        return shared(manifest)
    except OSError as error:
        if not are_missing(error):
            raise
        return unlocked(manifest)


def to_remove(manifest: Path) -> FileLock | None:
    """A lock for this process alone; None where one reads it."""
    try:
        return exclusive(manifest)
    except OSError as error:
        if not are_missing(error):
            raise
        return unlocked(manifest)
