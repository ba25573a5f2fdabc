"""A file that is there as a whole or not at all, and takes nothing's place unless that was asked for."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from elaunch.errors import CheckpointRefusedError, UsageError

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class _Named(io.FileIO):
    """A new file whose errors name the one that it is to become."""

    def __init__(self, temporary: Path, path: Path) -> None:
        super().__init__(temporary, "x+")
        self._path = path

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None


def check(path: Path, force: bool) -> None:
    """Whether a file may be written there, before any work is done.

    Raises CheckpointRefusedError where there is one and not ``force``, UsageError where none can be, and OSError.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UsageError(f"{path}: {path.parent} is no directory; make it first") from None
        return
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"{path}: is {'a directory' if stat.S_ISDIR(mode) else 'no regular file'}; expected a file name"
        )
    if not force:
        raise CheckpointRefusedError(f"{path}: is there already; --force writes over it")


@contextlib.contextmanager
def output_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """A file next to ``path``, durable and in its place once the block has ended without an error; else removed."""
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}")
    try:
        with io.BufferedRandom(_Named(temporary, path)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _put(temporary, path, force)
        _settle(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _put(temporary: Path, path: Path, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise CheckpointRefusedError(f"{path}: has come to be meanwhile; --force writes over it") from None
    except OSError as error:  # a file system without links: then the look before has to do
        if error.errno not in _NO_LINKS:
            raise
        check(path, force)
        os.rename(temporary, path)


def _settle(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
