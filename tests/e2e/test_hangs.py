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
            (line,) = [
                text for text in agent.output().splitlines() if "job_aborting" in text and f"n={generation} " in text
            ]
            assert "rank 1" in line, line
            assert where in line, line
            summary = wait_until("evidence", lambda g=generation: _summary(tmp_path / "logs", g))
            assert summary["code"] == code
            assert summary["culprits"] == [1]
            assert {rank["rank"] for rank in summary["ranks"]} == {0, 1, 2}
        job.finish()
        assert agent.wait() == 0
    finally:
        left = job.close()
    assert left == []


def _summary(logs: Path, generation: int) -> dict[str, object] | None:
    found = list(logs.rglob(f"evidence/{generation}/summary.json"))
    return json.loads(found[0].read_text()) if found else None
