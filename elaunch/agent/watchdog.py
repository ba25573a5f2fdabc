"""torch's local watchdog (``TORCHELASTIC_ENABLE_FILE_TIMER=1``): workers arm timers by a named pipe.

The worker whose timer expires gets the signal that it asked for; torchrun's agent then kills itself too, this one goes
on and treats the worker's end as any failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog

from elaunch.agent import trees
from elaunch.agent.timers import Timer, Timers, parse
from elaunch.errors import UsageError

ENABLE = "TORCHELASTIC_ENABLE_FILE_TIMER"
FILE = "TORCHELASTIC_TIMER_FILE"
_LOOK_SECONDS = 1.0  # the wall clock, which the expiry is told in, may be set
_CHUNK = 1 << 16


class Watchdog:
    """Reads the pipe at ``path`` from entering to leaving the context, and ends workers whose time is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._timers = Timers()
        self._ended: dict[int, str] = {}
        self._rest = b""
        self._alarm: asyncio.TimerHandle | None = None

    def why(self, pid: int) -> str:
        """Why the watchdog ended this process; empty if it did not."""
        return self._ended.get(pid, "")

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Make the pipe, and take it away in the end. Raises UsageError where it cannot be made."""
        self._loop = asyncio.get_running_loop()
        self._fd = _make(self.path)
        self._loop.add_reader(self._fd, self._readable)
        structlog.get_logger().debug("watchdog", file=str(self.path))
        try:
            yield
        finally:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            if self._alarm is not None:
                self._alarm.cancel()
            self.path.unlink(missing_ok=True)

    def _readable(self) -> None:
        try:
            *lines, self._rest = (self._rest + os.read(self._fd, _CHUNK)).split(b"\n")
        except BlockingIOError:
            return
        for line in filter(None, lines):
            try:
                self._timers.take(parse(line))
            except ValueError as error:
                structlog.get_logger().warning("bad_timer", reason=str(error))
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        due = self._timers.next
        if due is not None:
            wait = min(max(due - time.time(), 0.0), _LOOK_SECONDS)
            self._alarm = self._loop.call_later(wait, self._look)

    def _look(self) -> None:
        for timer in self._timers.expired(time.time()):
            self._end(timer)
        self._set_alarm()

    def _end(self, timer: Timer) -> None:
        log = structlog.get_logger().bind(pid=timer.pid, scope=timer.scope)
        if timer.signum <= 0:
            log.warning("timer_expired", text="no signal was asked for")
            return
        target = next((p for p in trees.below(os.getpid()) if p.pid == timer.pid), None)
        if target is None:
            return  # it has ended, or is none of ours
        self._ended[timer.pid] = f"the watchdog timer {timer.scope!r} expired"
        log.error("timer_expired", signal=timer.signum)
        try:
            trees.send(target, timer.signum)
        except OSError as error:
            log.error("timer_signal_failed", reason=str(error))


def watchdog(environ: Mapping[str, str]) -> Watchdog | None:
    """The watchdog that the environment asks for; None where it asks for none."""
    if environ.get(ENABLE) != "1":
        return None
    path = environ.get(FILE) or os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
    return Watchdog(Path(path))


def _make(path: Path) -> int:
    """A new pipe at ``path``, open for reading. A pipe or an empty file of an earlier run gives way."""
    try:
        with contextlib.suppress(FileNotFoundError):
            old = path.lstat()
            if not stat.S_ISFIFO(old.st_mode) and not (stat.S_ISREG(old.st_mode) and not old.st_size):
                raise UsageError(f"{FILE}={path}: there is something else than a pipe; name another file")
            path.unlink()
        os.mkfifo(path, 0o600)
        # Also for writing: so it has no end when a worker closes its side.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{FILE}={path}: {error.strerror or error}") from None
