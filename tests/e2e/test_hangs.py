"""A rank that lives and does not get on: found, named with its line, its evidence saved, and the job goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.harness import Job, wait_until

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
    agent = job.agent()
    try:
        for generation, (how, (code, where)) in enumerate(HOWS.items(), 1):
            job.steps_in(generation, 3)
            job.fault("all_reduce", 1, generation, how)
            job.steps_in(generation + 1, 3)
            found = json.loads(wait_for(tmp_path / "logs", generation).read_text())
            assert found["why"]["code"] == code
            assert "rank 1 " in found["why"]["text"]
            assert where in found["why"]["text"]
            assert {rank["rank"] for rank in found["ranks"]} == {0, 1, 2}
            assert found["why"]["text"] in agent.output()
        job.finish()
        assert agent.wait() == 0
    finally:
        left = job.close()
    assert left == []


def wait_for(logs: Path, generation: int) -> Path:
    """The summary of a generation's evidence."""
    return wait_until("evidence", lambda: next(logs.rglob(f"evidence/{generation}/summary.json"), None))
