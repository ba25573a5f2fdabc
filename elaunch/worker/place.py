"""Where the main thread is: the innermost line of the user's code."""

from __future__ import annotations

import _thread
import os
import site
import sys
import sysconfig
import threading
from functools import lru_cache
from types import CodeType, FrameType

from elaunch.progress import GroupProgress
from elaunch.worker.background import is_background_thread
from elaunch.worker.meeting import CALLS, meeting

_FRAMES = 50
_USER, _PACKAGE, _LIBRARY = range(3)  # the user's own files, installed ones, and those that never tell a call site


class Place:
    """``where`` is "train.py:31 in step", ``moves`` counts how often any of its frames had gone on.

    ``distributed`` tells that a thread of the program is in code that begins collectives, ``meeting`` what process
    group the main thread waits for to be made.
    """

    def __init__(self) -> None:
        self.where = ""
        self.moves = 0
        self.distributed = False
        self.meeting: GroupProgress | None = None
        self._main = threading.main_thread().ident
        self._at: list[tuple[CodeType, int]] = []

    def look(self) -> bool:
        """See where the main thread is now; whether that has changed."""
        frames = sys._current_frames()
        frames.pop(_thread.get_ident(), None)  # this one holds them all: a circle that would keep the program's objects
        self.distributed = any(
            _begins_collectives(frame.f_code.co_filename)
            for ident, frame in frames.items()
            if not is_background_thread(ident)
        )
        frame = frames.get(self._main or 0)
        if frame is None:
            return False
        at = _instructions(frame)
        if at == self._at:
            return False
        self._at = at
        self.moves += 1
        self.where = _told(_innermost_of_user(frame))
        self.meeting = meeting(frame) if any(code.co_name in CALLS for code, _ in at) else None
        return True


def _instructions(frame: FrameType) -> list[tuple[CodeType, int]]:
    """Of the innermost frames, the code and the instruction that each is at."""
    found: list[tuple[CodeType, int]] = []
    at: FrameType | None = frame
    while at is not None and len(found) < _FRAMES:
        found.append((at.f_code, at.f_lasti))
        at = at.f_back
    return found


def _innermost_of_user(frame: FrameType) -> FrameType:
    """The innermost frame of the user's files; if there is none, of any package but torch and the standard library."""
    package: FrameType | None = None
    at: FrameType | None = frame
    while at is not None:
        kind = _kind(at.f_code.co_filename)
        if kind == _USER:
            return at
        if kind == _PACKAGE and package is None:
            package = at
        at = at.f_back
    return package or frame


@lru_cache(maxsize=4096)
def _begins_collectives(filename: str) -> bool:
    return any(part in filename for part in ("/distributed/", "distributed.py", "/torch/_ops.py", "torchinductor"))


def _told(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno or code.co_firstlineno} in {code.co_name}"


@lru_cache(maxsize=4096)
def _kind(filename: str) -> int:
    if filename.startswith(("<", *_never_told())):
        return _LIBRARY
    if filename.startswith(_installed()):
        return _PACKAGE
    return _LIBRARY if filename.startswith(_standard()) else _USER


@lru_cache(maxsize=1)
def _never_told() -> tuple[str, ...]:
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    roots = [os.path.dirname(os.path.dirname(__file__)), *([os.path.dirname(torch)] if torch else [])]
    return tuple(os.path.join(root, "") for root in roots)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths["purelib"], paths["platlib"], site.getusersitepackages(), *site.getsitepackages()}
    return tuple(os.path.join(root, "") for root in roots)


@lru_cache(maxsize=1)
def _standard() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(os.path.join(paths[name], "") for name in ("stdlib", "platstdlib"))
