"""What ``faulthandler`` writes: reads it back, with distrust. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MAIN = re.compile(r"main thread (0x[0-9a-f]+)")
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python\d|/elaunch/worker/|^<")
_MOST_FRAMES = 200


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"

    @property
    def users(self) -> bool:
        """It is in a file of the user's own, as far as a path tells."""
        return not _LIBRARY.search(self.file)


def stacks(text: str) -> dict[str, tuple[Frame, ...]]:
    """Of each thread, by its identity, the frames with the innermost first; of several dumps the last counts."""
    found: dict[str, tuple[Frame, ...]] = {}
    frames: list[Frame] = []
    thread = ""
    for line in text.splitlines():
        if begun := _THREAD.match(line):
            thread, frames = begun[1], []
            found[thread] = ()
        elif thread and len(frames) < _MOST_FRAMES and (told := _FRAME.match(line)):
            frames.append(Frame(told[1], int(told[2][:9]), told[3]))
            found[thread] = tuple(frames)
    return found


def main_stack(text: str) -> tuple[Frame, ...]:
    """That of the main thread, which the first line of the file names; () where it is not there."""
    main = _MAIN.match(text)
    return stacks(text).get(main[1], ()) if main else ()


def call_site(frames: Sequence[Frame]) -> str:
    """``train.py:31 in step``: the innermost frame of the user's, else the innermost of all; "" without any."""
    return str(next((frame for frame in frames if frame.users), frames[0])) if frames else ""
