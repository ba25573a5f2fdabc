"""What the agent hands on when its part is over: the outcome for the report, the root cause for its own starter."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import structlog

from elaunch.agent import failures
from elaunch.agent.outcome import Outcome, RankFailure
from elaunch.controller.commands import End
from elaunch.rendezvous.state import Failure


def outcome_of(end: End) -> Outcome:
    """The end that the leader told, as it is reported."""
    outcome = end.outcome if end.outcome in ("succeeded", "failed", "stopped", "left") else "failed"
    return Outcome(end.exit_code, end.code, end.reason, outcome, tuple(map(_failure, end.failures)), end.failed)  # type: ignore[arg-type]


def pass_on(end: End, environ: Mapping[str, str]) -> None:
    """Copy the root cause to where whoever started this agent looks for it."""
    destination = environ.get("TORCHELASTIC_ERROR_FILE")
    if not destination or not end.failures:
        return
    root = end.failures[0]
    here = root.host == socket.gethostname()
    told = failures.Failure(
        rank=root.exit.rank,
        local_rank=root.exit.local_rank,
        host=root.host,
        pid=root.exit.pid,
        exit_code=root.exit.exit_code,
        time=root.exit.time,
        message=root.exit.message,
        traceback=root.exit.traceback,
        error_file=root.exit.error_file if here else "",
    )
    try:
        failures.copy_root_cause(told, destination)
    except OSError as error:
        structlog.get_logger().warning("error_file_not_written", path=destination, reason=str(error))


def _failure(failure: Failure) -> RankFailure:
    """For the report: the path of an error file that went with this agent's temporary folder is of no use."""
    end = failure.exit
    gone = failure.host == socket.gethostname() and not os.path.exists(end.error_file)
    return RankFailure(
        failure.host,
        end.rank,
        end.local_rank,
        end.pid,
        end.exit_code,
        end.time,
        "" if gone else end.error_file,
        end.message,
        end.traceback,
    )
