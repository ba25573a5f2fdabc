"""A rank that lives and does not get on: found, named with its line, its evidence saved, and the job goes on."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import PROGRAMS, Job, wait_until

pytestmark = pytest.mark.slow

HOWS = {
    "sleep": ("hung", "steps.py"),
    "lock": ("interpreter_stuck", "steps.py"),
    signal.SIGSTOP: ("frozen", ""),
    "mismatch": ("collective_mismatch", "other_collective"),
}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    options = ["--standalone", "--nproc-per-node=3", "--max-restarts=9", "--hang-timeout=3", "--grace-period=2"]
    return Job(tmp_path / "out", [*options, f"--log-dir={tmp_path}/logs"])


def test_a_hang_is_found_named_and_survived(job: Job, tmp_path: Path) -> None:
    """The same job hangs in each way, one generation after the other: one import of torch serves them all."""
    job.fault("before_init", 1, 1, "sleep")
    agent = job.agent()
    try:
        wait_until("the rank that stays away", lambda: job.events("fault", generation=1))
        job.fault("before_init", 1, 2, "slow", seconds=1.5)  # the next time it comes late, and in time
        why = summary(tmp_path / "logs", 1)["why"]
        assert why["code"] == "start_timeout"
        assert why["text"].startswith(f"rank 1 ({socket.gethostname()}) has not entered init_process_group, which 2 ")
        assert "steps.py:" in why["text"]
        for generation, (how, (code, where)) in enumerate(HOWS.items(), 2):
            job.steps_in(generation, 3)
            job.fault("all_reduce", 1, generation, how)
            job.steps_in(generation + 1, 3)
            found = summary(tmp_path / "logs", generation)
            assert found["why"]["code"] == code
            assert "rank 1 " in found["why"]["text"]
            # A rank that holds the lock has told where it was before; its stack shows where it is.
            (stuck,) = [rank for rank in found["ranks"] if rank["rank"] == 1]
            assert where in (stuck["where"] if how == "lock" else found["why"]["text"])
            assert {rank["rank"] for rank in found["ranks"]} == {0, 1, 2}
            assert found["why"]["text"] in agent.output()
        job.finish()
        assert agent.wait() == 0
    finally:
        left = job.close()
    assert left == []


def test_who_is_slow_for_an_honest_reason_is_left_alone(tmp_path: Path) -> None:
    """A first step of 20 and a checkpoint of 50 times a step pass; a stop of the same length that is none does not."""
    options = ["--standalone", "--start=exec", "--max-restarts=1", "--hang-floor=0.5", f"--log-dir={tmp_path}/logs"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "pacing.py"),), {"STEP": "0.1"})
    agent = job.agent()
    try:
        assert agent.wait() == 0, agent.output()
        why = summary(tmp_path / "logs", 1)["why"]
        assert why["code"] == "hung"
        assert "since step 59" in why["text"]
    finally:
        assert job.close() == []


def test_a_rank_three_times_as_slow_is_told_within_20_steps(tmp_path: Path) -> None:
    job = Job(tmp_path / "out", ["--standalone", "--nproc-per-node=3"], env={"PACE": "0.1", "TELL_STEPS": "1"})
    agent = job.agent()
    try:
        job.steps_in(1, 3)
        job.fault("between_steps", 1, 1, "slow", seconds=0.2)
        wait_until("the straggler", lambda: "straggler (" in agent.output())
        slow, steps = job.events("fault")[0], job.events("step", rank=1)
        assert len([step for step in steps if step["t"] > slow["t"]]) <= 20
        (line,) = [line for line in agent.output().splitlines() if "straggler (" in line]
        assert "rank 1 (" in line
        assert 2.0 <= float(line.split("a straggler, ")[1].split(" times")[0]) <= 4.0
        job.finish()
        assert agent.wait() == 0
        assert job.events(generation=2) == []
    finally:
        assert job.close() == []


def summary(logs: Path, generation: int) -> Any:
    """That of a generation's evidence, once it is written."""

    def whole() -> Any:
        path = next(logs.rglob(f"evidence/{generation}/summary.json"), None)
        with suppress(json.JSONDecodeError):
            return json.loads(path.read_text()) if path is not None else None

    return wait_until("evidence", whole)


def test_a_saver_that_waits_in_the_background_is_no_rank_that_waits(tmp_path: Path) -> None:
    """Taken for the main threads' waits, the two would be a circle: a deadlock of a rank that is at work."""
    options = ["--standalone", "--nproc-per-node=2", "--hang-timeout=4", f"--log-dir={tmp_path}/logs"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "beside.py"),), {"SECONDS": "9"})
    agent = job.agent()
    try:
        assert agent.wait() == 0, agent.output()
        assert not list((tmp_path / "logs").rglob("hang*.json")), agent.output()
    finally:
        assert job.close() == []
