"""The last thing a failed job prints: which rank began it, then the others, in torchrun's form."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime

from elaunch.agent.outcome import RankFailure

_WIDTH = 60
_NONE = "<N/A>"
_NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


def render(name: str, failures: Sequence[RankFailure], shown: int = 16, failed: int = 0) -> str:
    """The report of ``failures``, at least one. Of those after the first, ``shown`` are written out.

    ``failed`` is how many ranks failed where that is more than are known here.
    """
    first, *others = sorted(failures, key=lambda failure: (failure.time, failure.rank))
    title = f"{name} FAILED"
    root = _failure(0, first)
    blocks = [_failure(index, failure) for index, failure in enumerate(others[:shown], start=1)]
    if (more := max(failed, len(failures)) - 1 - len(blocks)) > 0:
        blocks.append(f"  ... and {more} more ranks")
    width = min(_WIDTH, max(len(line) for text in (title, root, *blocks) for line in text.splitlines()))
    return "\n".join(
        (
            "=" * width,
            title,
            "-" * width,
            "Failures:",
            *(blocks or ["  <NO_OTHER_FAILURES>"]),
            "-" * width,
            "Root Cause (first observed failure):",
            root,
            "=" * width,
        )
    )


def _failure(index: int, failure: RankFailure) -> str:
    name = signal_name(failure.exit_code)
    return "\n".join(
        (
            f"[{index}]:",
            f"  time      : {_time(failure.time)}",
            f"  host      : {failure.host}",
            f"  rank      : {failure.rank} (local_rank: {failure.local_rank})",
            f"  exitcode  : {failure.exit_code} (pid: {failure.pid}){f' ({name})' if name else ''}",
            f"  error_file: {failure.error_file or _NONE}",
            f"  traceback : {_explanation(failure)}",
        )
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep="_", timespec="milliseconds")


def _explanation(failure: RankFailure) -> str:
    text = failure.traceback or failure.message
    if not text and failure.exit_code < 0:
        name = signal_name(failure.exit_code) or _NONE
        text = f"Signal {-failure.exit_code} ({name}) received by PID {failure.pid}"
    return (text or _NO_TRACEBACK).rstrip().replace("\n", "\n  ")


def signal_name(exit_code: int) -> str:
    """The name of the signal in a negative exit code, empty if there is none."""
    if exit_code >= 0:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return ""
