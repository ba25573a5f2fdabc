"""A node beyond the wanted number waits, warm, and takes a dead one's place at once."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.harness import PROGRAMS, Agent, Job, wait_until


def placed(job: Job, generation: int) -> dict[int, int]:
    """The pid of each rank, once both of this generation have begun."""

    def both() -> dict[int, int]:
        found = {event["rank"]: event["pid"] for event in job.events("start", generation=generation)}
        return found if len(found) == 2 else {}

    return wait_until(f"two ranks of generation {generation}", both)


def rank_of(agent: Agent, ranks: dict[int, int]) -> int:
    """The rank that this agent started."""
    below = {process.pid for process in agent.children()}
    return next(rank for rank, pid in ranks.items() if pid in below)


def test_a_spare_takes_over_with_the_same_world_and_nobody_else_moves(tmp_path: Path, etcd: str) -> None:
    options = ["--nnodes=2", "--spares=1", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=warmspare"]
    options += ["--max-restarts=0", "--start=exec", "--rdzv-conf=lease_ttl=60"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "signalled.py"),))
    try:
        first, second = job.agent(), job.agent()
        before = placed(job, 1)
        spare = job.agent()
        wait_until("the spare", lambda: "this one is a spare" in spare.output())
        kept, dead = rank_of(first, before), rank_of(second, before)
        killed = time.monotonic()
        second.kill()
        after = placed(job, 2)
        assert time.monotonic() - killed < 35, "it waited for the dead node's lease"
        assert (rank_of(first, after), rank_of(spare, after)) == (kept, dead)
        job.finish()
        assert first.wait() == 0
        assert spare.wait() == 0
    finally:
        assert job.close() == []
