"""Checkpoints that a library writes itself, as folders ``checkpoint-N``: which of them are whole, and word of them.

A folder is committed when all ranks are through with it: then its files are flushed, and a mark is put into it by one
rename. What has no mark was cut off, and is never restored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from elaunch.worker import ledger

MARK = "elaunch.json"
_NAME = re.compile(r"checkpoint-(\d{1,18})")
_COMMIT_SECONDS = 3.0  # for the controller's answer: what comes later is recorded all the same


@dataclass(frozen=True, slots=True)
class Committed:
    """One whole checkpoint; ``generation`` wrote it, 0: not under elaunch."""

    step: int
    path: Path
    generation: int


def commit(path: Path, step: int, seconds: float) -> None:
    """Mark the folder as whole, and tell the controller; on one rank, when all are through with it. Raises OSError."""
    size, digest = _flushed(path)
    who = ledger.identity()
    mark = {"step": step, "generation": who.generation if who else 0, "digest": digest, "time": time.time()}
    draft = path / f"{MARK}.new"
    with draft.open("w") as file:
        json.dump(mark, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path / MARK)
    _flush_folder(path)
    _flush_folder(path.parent)
    ledger.commit(ledger.Commit(step, str(path.resolve()), digest, size, max(0.0, seconds)), _COMMIT_SECONDS)


def newest(folder: Path, point: ledger.RestorePoint) -> Committed | None:
    """The whole checkpoint to go on from: the step asked for, else the newest that is not to be passed over.

    Those that are to be avoided come last, as everywhere. Raises FileNotFoundError where there is no step asked for.
    """
    found = sorted(committed(folder), key=lambda one: -one.step)
    kept = [one for one in found if not any(one.generation < later and one.step > to for later, to in point.rewinds)]
    if point.step >= 0:
        wanted = [one for one in found if one.step == point.step]
        if not wanted:
            raise FileNotFoundError(f"{folder} has no whole checkpoint of step {point.step}, which was asked for")
        return wanted[0]
    good = [one for one in kept if one.step not in point.avoid]
    return next(iter([*good, *kept]), None)


def committed(folder: Path) -> list[Committed]:
    """All that are whole."""
    found = []
    for path in folder.glob("checkpoint-*"):
        name = _NAME.fullmatch(path.name)
        try:
            mark = json.loads((path / MARK).read_text())
            if name is not None and mark["step"] == int(name[1]):
                found.append(Committed(int(name[1]), path, int(mark["generation"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # cut off, or another's
    return found


def unmark(path: Path) -> None:
    """A folder that is to be written again is not whole meanwhile."""
    (path / MARK).unlink(missing_ok=True)


def _flushed(path: Path) -> tuple[int, str]:
    """Bring the folder's files to the disk; their size in all, and a digest of their names and sizes."""
    size, digest = 0, hashlib.sha256()
    for at, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.startswith(MARK):
                continue
            file = Path(at) / name
            fd = os.open(file, os.O_RDONLY)
            try:
                os.fsync(fd)
                length = os.fstat(fd).st_size
            finally:
                os.close(fd)
            size += length
            digest.update(f"{file.relative_to(path)} {length}\n".encode())
        _flush_folder(Path(at))
    return size, digest.hexdigest()


def _flush_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
