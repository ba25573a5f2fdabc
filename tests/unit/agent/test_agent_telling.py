"""What a person reads of a restart: who failed and how, what starts, that it runs; nothing twice."""

from __future__ import annotations

import signal
import socket
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from elaunch.agent.failures import made_up
from elaunch.agent.telling import Telling, tell_end
from elaunch.controller.commands import Abort, End, Start
from elaunch.controller.job import BEGINNING
from elaunch.rendezvous.state import RankExit

FIRST = Start(1, 0, 0, 1, 0, 2, 0, 2, "127.0.0.1", 1, False, BEGINNING.text)
KILLED = RankExit(1, 1, 42, -signal.SIGKILL, 0.0, message=made_up(-signal.SIGKILL, 42))
WHO = f"rank 1 (local rank 1, pid 42 on {socket.gethostname()}) was killed by SIGKILL"


def test_a_restart_is_told_in_three_lines() -> None:
    with capture_logs() as lines:
        telling = Telling(2)
        telling.starting(FIRST)
        telling.failed(1, KILLED)
        telling.aborting(Abort(1, "rank_failed", WHO), leaving=False)
        again = replace(FIRST, generation=2, restart_count=1, reason=WHO)
        telling.starting(again)
        telling.running(again)
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in told] == ["starting", "rank_failed", "starting", "running"]
    assert told[1] == {
        "event": "rank_failed", "log_level": "warning", "text": WHO, "generation": 1, "rank": 1, "exit_code": 137
    }  # fmt: skip
    assert (told[2]["text"], told[2]["generation"], told[2]["restart_count"]) == ("restart 1 of 2", 2, 1)
    assert all("reason" not in line for line in told)


def test_a_failure_of_another_node_is_told_once_as_the_reason() -> None:
    reason = "rank 7 (local rank 0, pid 9 on elsewhere) exited with code 3"
    with capture_logs() as lines:
        telling = Telling(1)
        telling.aborting(Abort(1, "rank_failed", reason), leaving=False)
        telling.starting(replace(FIRST, generation=2, restart_count=1, reason=reason))
    assert [(line["event"], line.get("reason")) for line in lines] == [("aborting", reason), ("starting", None)]
    assert lines[0]["log_level"] == "warning"


def test_what_a_rank_left_in_its_error_file_is_one_line() -> None:
    with capture_logs() as lines:
        Telling(0).failed(1, RankExit(0, 0, 42, 1, 0.0, message="ValueError: no\n such thing"))
        Telling(0).failed(1, RankExit(0, 0, 42, 3, 0.0, message=made_up(3, 42)))
    assert [line.get("message") for line in lines] == ["ValueError: no such thing", None]


def test_a_start_that_is_no_restart_is_not_called_one() -> None:
    """The count is what it was: a node was lost, or this one has only come."""
    again = replace(FIRST, generation=2, restart_count=1, reason=WHO)
    with capture_logs() as lines:
        telling = Telling(2)
        telling.starting(again)
        telling.starting(replace(again, generation=3, reason="lost h1"))
        telling.starting(replace(again, generation=4, restart_count=2))
    assert [line.get("text") for line in lines] == [None, None, "restart 2 of 2"]


def test_what_somebody_asked_for_is_no_warning() -> None:
    with capture_logs() as lines:
        for code in ("node_joined", "operator_abort", "node_lost", "hung"):
            Telling(0).aborting(Abort(1, code, code), leaving=False)
    assert [line["log_level"] for line in lines] == ["info", "info", "warning", "warning"]


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (End("succeeded", 0, "succeeded", "every rank ended with 0"), "job_succeeded"),
        (End("failed", 137, "rank_failed", WHO), "job_failed"),
        (End("stopped", 143, "stopped", "stopped by SIGTERM"), "job_stopped"),
        (End("left", 143, "node_left", "stopped by SIGTERM"), "node_left"),
    ],
)
def test_the_last_line_says_how_the_job_ended(end: End, event: str) -> None:
    with capture_logs() as lines:
        tell_end(end)
    assert [(line["event"], line["reason"]) for line in lines] == [(event, end.reason)]


def test_the_first_rank_that_fails_is_told_in_full_and_the_others_are_counted() -> None:
    first = replace(KILLED, exit_code=1, message="ValueError: no", traceback="Traceback: ...\nValueError: no")
    with capture_logs() as lines:
        telling = Telling(2)
        telling.starting(FIRST)
        telling.failed(1, first)
        for rank in range(2, 40):
            telling.failed(1, replace(first, rank=rank, local_rank=rank))
        telling.aborting(
            Abort(1, "rank_failed", WHO.replace("was killed by SIGKILL", "exited with code 1")), leaving=False
        )
        telling.failed(2, first)
    told = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in told] == ["rank_failed", "more_ranks_failed", "rank_failed"]
    assert (told[0]["rank"], told[0]["message"]) == (1, "ValueError: no")
    assert told[0]["traceback"] == first.traceback
    assert told[1]["text"].startswith("38 more of this node failed after the first: ranks 2, 3, 4")
