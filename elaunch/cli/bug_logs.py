"""The files that a job's ranks and agents have left on this host, for a bug report: bounded, and none behind a link."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MOST_OF_A_FILE = 1 << 20  # bytes; of a longer one the first and the last part
MOST_IN_ALL = 64 << 20  # bytes
MOST_FILES = 2_000
_HEAD = 256 << 10
_LONGEST_NAME = 200  # bytes of a job's name in that of its folder, as in agent/streams.py


@dataclass(frozen=True, slots=True)
class Found:
    """One file's name in the report and what is in it, or, where ``why`` says so, not all of it or nothing."""

    name: str
    data: bytes
    why: str = ""


def log_folders(job: str, given: Iterable[str]) -> list[Path]:
    """The job's folders below the log folders ``given``, and those that it has left in the temporary one."""
    name = job.replace("/", "_").encode()[:_LONGEST_NAME].decode(errors="ignore")
    found = [path for folder in given for path in _children(Path(folder), f"{name}_")]
    temporary = Path(tempfile.gettempdir())
    found += _children(temporary, f"elaunch_evidence_{name}_")
    for base in _children(temporary, "elaunch_"):
        found += _children(base, f"{name}_")
    return sorted(set(found))


def _children(folder: Path, prefix: str) -> list[Path]:
    """This user's own folders in it whose names begin so; what a link leads to is none."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                    found.append(Path(entry.path))
    except OSError:
        return []
    return [path for path in found if path.lstat().st_uid == os.getuid()]


def read_folders(folders: Iterable[Path]) -> Iterator[Found]:
    """What is in them, in the order of names, until it is too much."""
    left, files = MOST_IN_ALL, 0
    for number, folder in enumerate(folders):
        for path in _files(folder):
            name = f"{number:02d}-{folder.name}/{path.relative_to(folder)}"
            if files == MOST_FILES or left <= 0:
                yield Found(name, b"", "left out, with all after it: the report is large enough")
                return
            data, why = _read(path, min(MOST_OF_A_FILE, left))
            files, left = files + 1, left - len(data)
            yield Found(name, data, why)


def _files(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        yield from (Path(at) / name for name in sorted(names))


def _read(path: Path, most: int) -> tuple[bytes, str]:
    """A regular file's first and last bytes, and what is missing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return b"", "left out: a link" if path.is_symlink() else f"left out: {error.strerror}"
    with open(fd, "rb") as file:
        try:
            return _parts(file, most)
        except OSError as error:  # the medium's own, or a folder of another host that has gone
            return b"", f"left out: {error.strerror}"


def _parts(file: BinaryIO, most: int) -> tuple[bytes, str]:
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        return b"", "left out: no regular file"
    if about.st_size <= most:
        return file.read(most), ""
    head = file.read(min(_HEAD, most // 2))
    gap = about.st_size - most
    file.seek(gap + len(head))  # from the start: it may have been cut short meanwhile
    return head + f"\n[... {gap} bytes left out ...]\n".encode() + file.read(most - len(head)), f"{gap} bytes left out"
