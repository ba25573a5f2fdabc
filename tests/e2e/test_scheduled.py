"""Under Slurm, whose signals are to every process of a step: keepers, etcd, warm process and ranks get them too.

Slurm itself is in tests/slurm; here its variables are set, and its signals sent, by the test.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from elaunch.schedulers.slurm import GENERATIONS
from tests.e2e.harness import PROGRAMS, Job, wait_until

pytestmark = pytest.mark.slow

STEP = {
    "SLURM_JOB_ID": "12",
    "SLURM_CLUSTER_NAME": "tests",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_STEP_NODELIST": "n1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_TASKS_PER_NODE": "1",
}


def lines(job: Job, event: str) -> list[dict[str, Any]]:
    path = job.out / "starts.jsonl"
    text = path.read_text() if path.exists() else ""
    told = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [line for line in told if line["event"] == event]


@pytest.fixture
def step(tmp_path: Path) -> Any:
    program = (str(PROGRAMS / "ledgering.py"),)
    job = Job(tmp_path / "out", ["--start=exec", "--nproc-per-node=2", "--max-restarts=3"], program, dict(STEP))
    yield job
    assert job.close(within=60) == []


def at_work(job: Job) -> None:
    """Both ranks can hear of a notice, and there is a checkpoint."""
    wait_until("both ranks", lambda: len(lines(job, "start")) == 2)
    wait_until("a checkpoint", (job.out / "checkpoint.json").exists)


def signal_all(job: Job, signum: signal.Signals) -> None:
    for process in job.living():
        try:
            process.send_signal(signum)
        except psutil.Error:
            continue


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_a_signal_to_all_processes_is_notice_and_the_job_ends_in_order(step: Job, signum: signal.Signals) -> None:
    agent = step.agent()
    at_work(step)
    signal_all(step, signum)
    assert agent.wait() == 85
    assert len(lines(step, "noticed")) == 2
    assert "work remains" in agent.output()
    assert "lease_lost" not in agent.output()  # etcd was there to the end


def test_a_later_start_goes_on_with_a_higher_generation(step: Job) -> None:
    agent = step.agent()
    at_work(step)
    signal_all(step, signal.SIGTERM)
    assert agent.wait() == 85
    saved = json.loads((step.out / "checkpoint.json").read_text())["step"]
    step.agent(SLURM_RESTART_COUNT="1")
    again = wait_until("the next start", lambda: len(found := lines(step, "start")) == 4 and found[2:])
    assert {(line["generation"], line["step"]) for line in again} == {(GENERATIONS + 1, saved)}


def test_a_rank_that_waits_for_notice_is_ended_at_once_when_another_fails(step: Job) -> None:
    """SIGTERM does nothing to it then, and the grace is long."""
    step.agent("--grace-period=60")
    at_work(step)
    (step.out / "fail-0").touch()
    began = time.monotonic()
    wait_until("the failure", lambda: "rank_failed" in step.outputs())
    (step.out / "fail-0").unlink()
    wait_until("the next generation", lambda: [e for e in lines(step, "start") if e["generation"] >= 2])
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_of_a_program_that_does_not_listen_work_remains_too(step: Job, signum: signal.Signals) -> None:
    """It dies of SIGTERM at once, which is no failure then; the warning alone does nothing to it."""
    step.program = ("--no-python", "sleep", "1000")
    agent = step.agent()
    wait_until("the ranks", lambda: "running" in agent.output())
    signal_all(step, signum)
    assert agent.wait() == 85
    assert "rank_failed" not in agent.output()
