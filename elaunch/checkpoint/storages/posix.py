"""A checkpoint directory on a file system: local, or shared by all hosts as NFS, Lustre and GPFS are.

What is relied on: that a name is created once (``link``), that ``rename`` of a directory to a name that is free is one
step, that ``fsync`` of a file and of its directory makes both durable, and that locks (``flock``) end with their owner.
Nothing is ever renamed over a checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elaunch.checkpoint.storages import layout, locks
from elaunch.checkpoint.storages.posix_files import PosixSink, PosixSource, opened

_REMOVAL_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_LOOKS = 5


@dataclass(slots=True)
class Posix:
    """The directory ``root``."""

    root: Path
    url: str = field(init=False)
    _device: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self.url = str(self.root)

    def checkpoints(self) -> list[str]:
        return [name for name in self.names("") if layout.step_of(name) is not None]

    def leftovers(self, claim: int) -> list[str]:
        staged = [(name, layout.staged_of(name)) for name in self.names(layout.STAGING)]
        retired = [(name, layout.retired_of(name)) for name in self.names(layout.RETIRED)]
        older = [f"{layout.STAGING}/{name}" for name, one in staged if one is not None and one.claim < claim]
        older += [f"{layout.RETIRED}/{name}" for name, one in retired if one is not None and one < claim]
        return older + [f"{layout.TRASH}/{name}" for name in self.names(layout.TRASH)]

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except FileNotFoundError:
            return []

    def read(self, path: str, most: int) -> bytes:
        with open(opened(self.root / path), "rb") as file:
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
        self._make(self.root / path)

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
        try:
            self._settle(self.root)
        except OSError as error:
            what = f"stands there, and may not survive a loss of power: {error.strerror}"
            raise OSError(error.errno, what, str(target)) from error
        return name

    def discard(self, path: str) -> None:
        if str(Path(path).parent) != layout.TRASH:
            self.make(layout.TRASH)
            moved = f"{layout.TRASH}/{Path(path).name}.{uuid.uuid4().hex}"
            try:
                os.rename(self.root / path, self.root / moved)
            except FileNotFoundError:
                return
            self._settle((self.root / path).parent)
            path = moved
        _delete(self.root / path)

    def retire(self, name: str, retired: str) -> bool:
        source, target = self.root / name, self.root / retired / name
        try:
            lock = self._to_remove(source / layout.MANIFEST)
        except FileNotFoundError:
            return True
        if lock is None:
            return False
        try:
            if not lock.is_of(source / layout.MANIFEST):
                return True  # another has removed it since it was opened
            os.rename(source, target)
        finally:
            lock.release()
        self._settle(self.root)
        _delete(target)
        return True

    def claim(self, path: str, data: bytes) -> locks.FileLock | None:
        target = self.root / path
        try:
            with self._beside(target, data) as temporary:
                lock = self._own(temporary)
                try:
                    self._name(temporary, target)
                except OSError:
                    lock.release()
                    raise
        except (FileExistsError, FileNotFoundError):  # taken; or swept away as left over, by one that was faster
            return None
        self._settle_all(target.parent)
        return lock

    def held(self, path: str) -> bool:
        try:
            lock = locks.shared(self.root / path)  # so that those who look are not in each other's way
        except FileNotFoundError:
            return False
        if lock is not None:
            lock.release()
        return lock is None

    def reading(self, name: str) -> locks.FileLock:
        path = self.root / name
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while (lock := locks.to_read(path)) is None:
            if time.monotonic() > deadline:  # who has begun to remove it is frozen; its claim will be gone
                return locks.unlocked(path)
            time.sleep(_LOOK_SECONDS)
        if not lock.is_of(path):
            lock.release()
            raise FileNotFoundError(errno.ENOENT, "was removed just now", str(path))
        return lock

    def is_read(self, name: str) -> bool:
        lock = self._to_remove(self.root / name)
        if lock is not None:
            lock.release()
        return lock is None

    def _to_remove(self, manifest: Path) -> locks.FileLock | None:
        """A lock against those who read; None where one does. Others who remove, or look, have it for a moment only."""
        for _ in range(_LOOKS):
            if (lock := locks.to_remove(manifest)) is not None:
                return lock
            time.sleep(_LOOK_SECONDS)
        return None

    def _own(self, temporary: Path) -> locks.FileLock:
        try:
            lock = locks.exclusive(temporary)
        except OSError as error:
            if locks.are_missing(error):
                what = "its file system has no locks (flock): who writes there could not be told (Lustre: -o flock)"
                raise OSError(error.errno, what, self.url) from error
            raise
        if lock is None:
            raise OSError(errno.EBUSY, "a new file is locked by another process", str(temporary))
        return lock

    def _name(self, temporary: Path, target: Path) -> None:
        """Give a file its name, if that is free."""
        here = os.stat(temporary)
        if self._device not in (-1, here.st_dev):
            raise OSError(errno.ENODEV, "the file system that it was on is not mounted", self.url)
        try:
            os.link(temporary, target)
        except FileExistsError:
            if os.stat(temporary).st_nlink != 2:  # NFS: the answer to the first try was lost, and it was tried again
                raise
        self._device = here.st_dev

    @contextlib.contextmanager
    def _beside(self, target: Path, data: bytes) -> Iterator[Path]:
        """A file that nobody knows, next to where it is wanted; removed where it was not taken."""
        temporary = target.with_name(layout.temporary_name(target.name))
        sink = PosixSink(temporary)
        try:
            sink.write(data)
            sink.finish()
            yield temporary
        finally:
            sink.close()
            temporary.unlink(missing_ok=True)

    def _make(self, directory: Path) -> None:
        try:
            directory.mkdir()
        except FileNotFoundError:
            self._make(directory.parent)
            directory.mkdir(exist_ok=True)
        except FileExistsError:
            if not directory.is_dir():
                raise
            return
        self._settle(directory.parent)

    def _settle_all(self, directory: Path) -> None:
        """Make the way to a directory durable: who made it may have been killed before that."""
        while directory != self.root.parent:
            self._settle(directory)
            directory = directory.parent
        with contextlib.suppress(PermissionError):
            self._settle(directory)

    def _settle(self, directory: Path) -> None:
        """Make what was created or renamed in a directory durable."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _delete(directory: Path) -> None:
    """Delete what nobody looks for any more; another process may be at it as well."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)
