"""What a failed rank left behind: its error file, read with distrust, and the copy for the starter."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOST_READ = 4 << 20  # bytes of an error file
_MOST_TEXT = 64 << 10  # characters kept of a message or a traceback
_OF_A_PEER = re.compile(
    "connection (was )?(closed|reset|refused|aborted)|broken pipe|socket closed|another rank did not answer"
    "|remote process exited|remote peer|communicator was aborted",
    re.IGNORECASE,
)  # Gloo, NCCL, torch's store, and elaunch's checkpoints
_NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank's end other than with 0. ``exit_code`` is -n for signal n, ``time`` seconds since the epoch."""

    rank: int
    local_rank: int
    host: str
    pid: int
    exit_code: int
    time: float
    message: str
    traceback: str = ""
    error_file: str = ""

    @property
    def signal_name(self) -> str:
        """Name of the signal that ended it, "" if none did."""
        return signal_name(-self.exit_code) if self.exit_code < 0 else ""


@dataclass(frozen=True, slots=True)
class _Told:
    message: str = ""
    traceback: str = ""
    time: float | None = None


def signal_name(signum: int) -> str:
    """``SIGKILL`` for 9; ``signal 77`` for what has no name."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def shell_code(exit_code: int) -> int:
    """The exit code as a shell shows it: 128 + n where signal n ended the process."""
    return exit_code if exit_code >= 0 else 128 - exit_code


def failure(
    *, rank: int, local_rank: int, host: str, pid: int, exit_code: int, time: float, error_file: Path | None
) -> Failure:
    """The failure of a rank that ended at ``time``, with what its error file adds, however bad that is."""
    text = _read(error_file)
    told = _told(text) if text else _Told()
    return Failure(
        rank=rank,
        local_rank=local_rank,
        host=host,
        pid=pid,
        exit_code=exit_code,
        time=_moment(told.time, time),
        message=told.message or made_up(exit_code, pid),
        traceback=told.traceback,
        error_file=str(error_file) if text else "",
    )


def left_at(error_file: Path) -> float | None:
    """When a rank wrote its error file, in seconds since the epoch; None where it has none.

    None as well where its error is that a peer has gone: the peer's end is noticed later than its connections break.
    """
    text = _read(error_file)
    told = _told(text) if text else None
    if told is None or _OF_A_PEER.search(told.message):
        return None
    try:
        return _moment(told.time, error_file.stat().st_mtime)
    except OSError:
        return None


def copy_root_cause(root: Failure, destination: str | Path) -> None:
    """Write the root cause, ``errorCode`` set, where the launcher's own starter looks. Raises OSError."""
    text = _read(Path(root.error_file)) if root.error_file else ""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or "message" not in data:
        extra = {"py_callstack": root.traceback, "timestamp": str(int(root.time))}
        data = {"message": {"message": root.message, "extraInfo": extra}}
    if isinstance(data["message"], dict):
        data["message"]["errorCode"] = root.exit_code
    _replace(Path(destination), json.dumps(data))


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(_MOST_READ).decode(errors="replace")
    except OSError:
        return ""


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe in its place would have us wait for a writer


def _told(text: str) -> _Told:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _Told(message=f"(unreadable error file) {_head(text)}")
    if not isinstance(data, dict) or "message" not in data:
        return _Told(message=_head(text))
    message = data["message"]
    if not isinstance(message, dict):
        return _Told(_head(str(message)), "", _number(data.get("timestamp")))
    extra = message.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    traceback = extra.get("py_callstack")
    return _Told(
        _head(str(message.get("message", ""))),
        _tail(traceback) if isinstance(traceback, str) else "",
        _number(extra.get("timestamp")),
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _moment(told: float | None, ended: float) -> float:
    """When it failed: the file's time where it fits, made finer by the end's if it has whole seconds only."""
    if told is None or told > ended + 1:
        return ended
    if told != int(told):
        return told
    return min(max(ended, told), told + 0.999)


def made_up(exit_code: int, pid: int) -> str:
    """What torch says of an exit of which the rank itself said nothing."""
    if exit_code < 0:
        return f"Signal {-exit_code} ({signal_name(-exit_code)}) received by PID {pid}"
    return _NO_TRACEBACK


def _head(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ..."


def _tail(text: str) -> str:
    """The end of a traceback is what tells."""
    return text if len(text) <= _MOST_TEXT else "... " + text[-_MOST_TEXT:]


def _replace(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():  # /dev/null, a pipe
        path.write_text(text)
        return
    fd, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
