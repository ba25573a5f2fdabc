"""SIGKILL of everything at a random moment, again and again, then a start under the same id: it always comes up."""

from __future__ import annotations

import random
import time

import psutil
import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.test_launch import free_port

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(400)]  # kills must fall amid starts

SEED = 20240229
TTL = "lease_ttl=2,last_call_timeout=0.5"


def kill_everything(job: Job, within: float, dice: random.Random) -> None:
    """SIGKILL every process of the job, in no order, after at most ``within`` seconds of its life."""
    deadline = time.monotonic() + dice.uniform(0.0, within)
    wait_until("the moment", lambda: time.monotonic() >= deadline, within + 1)
    while left := job.living():
        dice.shuffle(left)
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
    for agent in job.agents:
        agent.wait()


def run(job: Job, kills: int, dice: random.Random) -> None:
    used: set[int] = set()
    within = 6.0
    for _ in range(kills):
        for _ in range(2):
            job.agent("--start=exec")
        kill_everything(job, within, dice)
        started = {e["generation"] for e in job.events("start")}
        for path in job.out.glob("*-*.jsonl"):
            path.unlink()
        assert not started & used, "a generation number was used twice"
        assert not started or min(started) > max(used, default=0)
        used |= started
        within *= 1.0 if used else 1.2  # a slow machine takes longer until there is a start
    agents = [job.agent("--start=exec") for _ in range(2)]
    wait_until("the job is up", lambda: any(len(job.events("start", generation=g)) == 2 for g in generations(job)))
    assert not generations(job) & used
    assert used, "no kill came after a start: the test tests nothing"
    job.finish()
    assert [agent.wait() for agent in agents] == [0, 0], job.outputs()


def generations(job: Job) -> set[int]:
    return {e["generation"] for e in job.events("start")}


def test_with_an_external_etcd(job: MakeJob, etcd: str) -> None:
    one = job(
        "--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=everything", f"--rdzv-conf={TTL}",
        program=[str(PROGRAMS / "signalled.py")],
    )  # fmt: skip
    run(one, 15, random.Random(SEED))


def test_with_the_embedded_etcd_killed_as_well(job: MakeJob) -> None:
    one = job(
        "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=everything",
        f"--rdzv-conf={TTL}", program=[str(PROGRAMS / "signalled.py")],
    )  # fmt: skip
    run(one, 15, random.Random(SEED + 1))
