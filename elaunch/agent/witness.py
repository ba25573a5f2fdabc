"""What one rank can be made to tell before it is ended, and what the kernel tells of it. Nothing here waits for it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elaunch.agent.sight import RankFiles, Sight
from elaunch.progress import RankProgress
from elaunch.progress_page import STACKS_SIGNAL

_MOST_STACKS = 4 << 20  # bytes
_MOST_FLIGHT = 64 << 20
_MOST_STDERR = 16 << 10
_TASKS = 64
_KERNEL = ("status", "wchan", "stack", "syscall")


@dataclass(slots=True)
class Witness:
    """A rank that is asked. ``stderr`` is the file that it writes its errors to, if there is one.

    ``how`` is how it answered: "thread" (its own, which got the interpreter lock), "signal" (a handler that needs no
    lock) or "" (not at all).
    """

    rank: RankProgress
    sight: Sight
    files: RankFiles
    stderr: Path | None = None
    how: str = ""
    _begin: int = 0
    _asked: int = 0

    def __post_init__(self) -> None:
        self._begin = self._size()

    @property
    def can_run(self) -> bool:
        """It has a page, and is neither stopped nor stuck in the kernel nor dead."""
        return self.rank.attached and self.rank.state in "RSI"

    def ask(self) -> None:
        """Ask its thread, which answers when it next has the lock."""
        self._asked = self.sight.page.asked + 1
        self.sight.page.asked = self._asked

    def interrupt(self) -> bool:
        """Send the signal for stacks, if the process has a handler for it: without one it would be its death."""
        pid = self.rank.pid
        if self.sight.page.signal != STACKS_SIGNAL or not _handles(pid, STACKS_SIGNAL):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, STACKS_SIGNAL)
            return True
        return False

    def look(self) -> bool:
        """Whether it has answered by now."""
        if self.sight.page.answered >= self._asked:  # later, where somebody else has asked meanwhile
            self.how = "thread"
        return bool(self.how)

    def refresh(self, now: float) -> None:
        """See what its page says by now, in seconds of the monotonic clock."""
        self.rank = self.sight.look(now) or self.rank

    def written(self) -> int:
        """Bytes of stacks since it was asked."""
        return self._size() - self._begin

    def stacks(self) -> str:
        """The stacks that it wrote when asked; first a line that names the main thread. "" where it did not."""
        if self.written() <= 0:
            return ""
        head = os.pread(self.files.stacks, 64, 0).partition(b"\n")[0] + b"\n"
        text = os.pread(self.files.stacks, _MOST_STACKS, self._begin)
        return ((head if self._begin else b"") + text).decode(errors="replace")

    def flight(self) -> bytes:
        """torch's flight record, a line of JSON for each backend; only its own thread can get it."""
        return os.pread(self.files.flight, _MOST_FLIGHT, 0) if self.how == "thread" else b""

    def errors(self) -> str:
        """The end of what it wrote to its standard error."""
        return tail(self.stderr) if self.stderr is not None else ""

    def kernel(self, *names: str) -> str:
        """What /proc says of it and of its threads: enough to see what it sleeps in. ``names``: these files only."""
        return "\n".join(_told(self.rank.pid, names or _KERNEL))

    def _size(self) -> int:
        return os.fstat(self.files.stacks).st_size


def tail(path: Path) -> str:
    """The last 16 KiB of a file, "" where it is none that can be read without waiting."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return ""
        return os.pread(fd, _MOST_STDERR, max(0, found.st_size - _MOST_STDERR)).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _handles(pid: int, signum: int) -> bool:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def _told(pid: int, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield f"--- {name}\n{_read(f'/proc/{pid}/{name}')}"
    try:
        tasks = sorted(map(int, os.listdir(f"/proc/{pid}/task")))[:_TASKS]
    except OSError:
        return
    for task in tasks:
        told = [_read(f"/proc/{pid}/task/{task}/{name}").strip() for name in ("comm", "wchan", "syscall")]
        yield f"--- thread {task} {' | '.join(told)}"


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(1 << 16)
    except OSError as error:
        return f"({error.strerror})\n"
