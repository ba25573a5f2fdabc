"""What the operating system says of a directory, as a sentence and as an error with an exit code of its own."""

from __future__ import annotations

import errno

from elaunch.errors import CheckpointError, NoCheckpointError, StorageAccessError, StorageError

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR}


def in_words(error: OSError) -> str:
    """One line: which file, and why."""
    why = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {why}" if error.filename else why


def as_error(error: OSError) -> CheckpointError:
    """The error that says the same, for whoever ends a process with it."""
    if error.errno in _DENIED:
        return StorageAccessError(in_words(error))
    if error.errno in _ABSENT:
        return NoCheckpointError(in_words(error))
    return StorageError(in_words(error))
