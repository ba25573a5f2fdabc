"""How a job that a program started failed, with the attributes of torch's ChildFailedError."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from elaunch.errors import ElaunchError


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    """One rank that failed, as torch's ``ProcessFailure`` has it; ``host``, ``rank`` and ``traceback`` are ours.

    ``exitcode`` is -n where signal n ended it, ``timestamp`` is in whole seconds since the epoch.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str
    timestamp: int
    host: str
    rank: int
    traceback: str

    @property
    def error_file_data(self) -> dict[str, Any]:
        """What torch reads from the error file."""
        extra = {"py_callstack": self.traceback, "timestamp": str(self.timestamp)}
        return {"message": {"message": self.message, "extraInfo": extra, "errorCode": self.exitcode}}

    def signal_name(self) -> str:
        """The signal that ended it, ``<N/A>`` if none did."""
        if self.exitcode >= 0:
            return "<N/A>"
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return "<N/A>"

    def timestamp_isoformat(self) -> str:
        """``timestamp`` as text, of UTC."""
        return datetime.fromtimestamp(self.timestamp, timezone.utc).isoformat(sep="_")


class ChildFailedError(ElaunchError):
    """Ranks failed, and no restart was left. ``failures`` are by rank, the root cause first.

    ``exit_code`` of the instance is what ``elaunch`` would have ended with.
    """

    code = "ranks_failed"

    def __init__(self, name: str, failures: Mapping[int, ProcessFailure], report: str, exit_code: int) -> None:
        self.name = name
        self.failures = dict(failures)
        self._report = report
        self.exit_code = exit_code  # type: ignore[misc]
        rank, first = self.get_first_failure()
        lines = first.message.strip().splitlines() or [f"exit code {first.exitcode}"]
        super().__init__(f"{name} failed on rank {rank} ({first.host}, pid {first.pid}): {lines[0]}")

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that began it, and its failure: the root cause."""
        return next(iter(self.failures.items()))

    def format_msg(self) -> str:
        """The report over many lines that ``elaunch`` ends with."""
        return self._report


class JobEndedError(ElaunchError):
    """The job ended otherwise than by success, and no rank's failure was why: a stop, a drain, an operator's abort.

    ``code`` and ``exit_code`` of the instance are the job's (docs/exit-codes.md).
    """

    def __init__(self, text: str, code: str, exit_code: int) -> None:
        super().__init__(text)
        self.code = code  # type: ignore[misc]
        self.exit_code = exit_code  # type: ignore[misc]


def raised(told: Mapping[str, Any]) -> ElaunchError | None:
    """The error for what the agent's process told of the end; None for success."""
    if "error" in told:
        return _error(told["error"], told["text"], told["exit_code"])
    if told["failures"]:
        failures = [ProcessFailure(**one) for one in told["failures"]]
        return ChildFailedError(told["name"], {one.rank: one for one in failures}, told["report"], told["exit_code"])
    if told["exit_code"]:
        return JobEndedError(told["reason"], told["code"], told["exit_code"])
    return None


def _error(code: str, text: str, exit_code: int) -> ElaunchError:
    """The error of this code, as the command line would have raised it."""
    kinds = [ElaunchError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.code == code and kind.__init__ is ElaunchError.__init__:
            return kind(text)
    return JobEndedError(text, code, exit_code)
