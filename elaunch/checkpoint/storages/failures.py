"""What went wrong, in one line; of a directory also as an error with an exit code of its own."""

from __future__ import annotations

import errno

from elaunch.errors import CheckpointError, NoCheckpointError, StorageAccessError, StorageError

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR}


def describe(error: BaseException) -> str:
    """An error that was to be expected: its one line; of the operating system's, which file, and why."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def line(error: BaseException) -> str:
    """An error that nobody foresaw: of which kind, and its first line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def as_error(error: OSError) -> CheckpointError:
    """The error that says the same, for whoever ends a process with it."""
    if error.errno in _DENIED:
        return StorageAccessError(describe(error))
    if error.errno in _ABSENT:
        return NoCheckpointError(describe(error))
    return StorageError(describe(error))
