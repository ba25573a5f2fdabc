"""A checkpoint directory on a file system: local, or shared by all hosts as NFS, Lustre and GPFS are.

What is relied on: that a name is created once (``link``), that ``rename`` of a directory to a name that is free is one
step, that ``fsync`` of a file and of its directory makes both durable, and that locks (``flock``) end with their owner.
Nothing is ever renamed over a checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elaunch.checkpoint import layout, writeback

_ONE_WRITE = 1 << 30  # the kernel takes 2 GiB at most


class PosixSink:
    """A new file, written at its end."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._end = 0

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view[:_ONE_WRITE])
            writeback.start(self._fd, self._end, written)
            view, self._end = view[written:], self._end + written

    def finish(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixSource:
    """A file that is read by position."""

    def __init__(self, path: Path) -> None:
        self._fd = _opened(path)
        self._path = path
        self.size = os.fstat(self._fd).st_size

    def read_into(self, offset: int, view: memoryview) -> None:
        while view:
            got = os.preadv(self._fd, [view], offset)
            if not got:
                raise OSError(errno.EIO, f"ends at byte {offset}", str(self._path))
            view, offset = view[got:], offset + got

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class PosixHold:
    """A lock on an open file: it ends with the process, however that ends."""

    fd: int

    def release(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class Posix:
    """The directory ``root``."""

    root: Path
    url: str = field(init=False)
    fence_after_publish: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.url = str(self.root)

    def checkpoints(self) -> list[str]:
        return [name for name in self.names("") if layout.step_of(name) is not None]

    def leftovers(self, claim: int) -> list[str]:
        staged = [(name, layout.staged_of(name)) for name in self.names(layout.STAGING)]
        older = [f"{layout.STAGING}/{name}" for name, one in staged if one is not None and one.claim < claim]
        return older + [f"{layout.TRASH}/{name}" for name in self.names(layout.TRASH)]

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except FileNotFoundError:
            return []

    def read(self, path: str, most: int) -> bytes:
        with open(_opened(self.root / path), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", str(self.root / path))
        return data

    def write(self, path: str, data: bytes) -> None:
        target = self.root / path
        with self._beside(target, data) as temporary:
            os.rename(temporary, target)
        self._settle(target.parent)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def size(self, path: str) -> int:
        return os.stat(self.root / path).st_size

    def source(self, path: str) -> PosixSource:
        return PosixSource(self.root / path)

    def sink(self, path: str) -> PosixSink:
        return PosixSink(self.root / path)

    def make(self, path: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)

    def staging(self, step: int, generation: int, claim: int) -> str:
        return f"{layout.STAGING}/{layout.staging_name(step, generation, claim)}"

    def publish(self, staging: str, name: str, manifest: bytes) -> str:
        source, target = self.root / staging, self.root / name
        if target.exists():  # before the manifest is: it may be published under another name then
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        sink = PosixSink(source / layout.MANIFEST)
        try:
            sink.write(manifest)
            sink.finish()
        finally:
            sink.close()
        self._settle(source)
        os.rename(source, target)
        self._settle(self.root)
        return name

    def discard(self, path: str) -> None:
        self.make(layout.TRASH)
        gone = self.root / layout.TRASH / f"{Path(path).name}.{uuid.uuid4().hex}"
        try:
            os.rename(self.root / path, gone)
        except FileNotFoundError:
            return
        self._settle((self.root / path).parent)
        shutil.rmtree(gone)

    def claim(self, path: str, data: bytes) -> PosixHold | None:
        target = self.root / path
        with self._beside(target, data) as temporary:
            fd = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.link(temporary, target)
            except FileExistsError:
                os.close(fd)
                return None
            except OSError:
                os.close(fd)
                raise
            os.unlink(temporary)
        self._settle(target.parent)
        return PosixHold(fd)

    def held(self, path: str) -> bool:
        try:
            fd = os.open(self.root / path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def reading(self, name: str) -> PosixHold:
        fd = os.open(self.root / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError:
            os.close(fd)
            raise
        return PosixHold(fd)

    def is_read(self, name: str) -> bool:
        fd = os.open(self.root / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    @contextlib.contextmanager
    def _beside(self, target: Path, data: bytes) -> Iterator[Path]:
        """A file that nobody knows, next to where it is wanted; removed where it was not taken."""
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        sink = PosixSink(temporary)
        try:
            sink.write(data)
            sink.finish()
            yield temporary
        finally:
            sink.close()
            temporary.unlink(missing_ok=True)

    def _settle(self, directory: Path) -> None:
        """Make what was created or renamed in a directory durable."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _opened(path: Path) -> int:
    """Open a file to read. Raises OSError for a pipe or a device, which would be waited for, or never end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, "is no regular file", str(path))
    return fd
