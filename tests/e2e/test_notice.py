"""A stop that can wait gives the programs notice: they save what they have and exit by themselves."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.etcd.servers import free_port

GRACE = 8.0
LONG = 60.0  # of it only the beginning is needed


def started(job: Job, generation: int, world: int) -> None:
    def all_up() -> bool:
        found = [path.read_text() for path in job.out.glob(f"{generation}-*.started")]
        return found == [str(world)] * world

    wait_until(f"generation {generation} of {world} ranks", all_up)


def saving(tmp_path: Path, seconds: float, grace: float) -> Job:
    options = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--nnodes=1:2", "--start=exec"]
    options += [f"--grace-period={grace}", "--rdzv-conf=last_call_timeout=20"]
    return Job(tmp_path / "out", options, (str(PROGRAMS / "saving.py"),), {"SAVING": str(seconds)})


def test_a_node_that_leaves_lets_every_rank_save_first(tmp_path: Path) -> None:
    job = saving(tmp_path, 1.5, LONG)
    try:
        first, second = job.agent(), job.agent()
        started(job, 1, 2)
        second.kill(signal.SIGTERM)
        assert second.wait() == 143
        started(job, 2, 1)
        assert sorted(path.name for path in job.out.glob("*.saved")) == ["1-0.saved", "1-1.saved"]
        for told in job.out.glob("*.told"):
            assert LONG - 15 < float(told.read_text()) <= LONG
        job.finish()
        assert first.wait() == 0
        assert "restart_count=1" not in first.output()
    finally:
        assert job.close() == []


def test_all_ranks_leave_their_loop_at_the_same_step(tmp_path: Path) -> None:
    options = ["--standalone", "--nproc-per-node=2", f"--grace-period={LONG}"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "agreeing.py"),))
    try:
        agent = job.agent()
        started(job, 1, 2)
        agent.kill(signal.SIGTERM)
        assert agent.wait() == 143
        first, second = (path.read_text() for path in job.out.glob("1-*.saved"))
        assert int(first) == int(second) >= 5
    finally:
        assert job.close() == []


@pytest.mark.slow
def test_a_program_that_does_not_end_in_time_is_ended(tmp_path: Path) -> None:
    job = saving(tmp_path, 600.0, GRACE)
    try:
        agent = job.agent("--nnodes=1")
        started(job, 1, 1)
        asked = time.monotonic()
        agent.kill(signal.SIGTERM)
        assert agent.wait() == 143
        assert GRACE * 0.8 < time.monotonic() - asked < GRACE + 30
        assert list(job.out.glob("*.saved")) == []
    finally:
        assert job.close() == []
