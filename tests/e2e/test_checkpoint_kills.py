"""SIGKILL of a rank, of all, of the agent, at random instants around saves: each start goes on from the newest step."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from elaunch.checkpoint.storages import layout
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Agent, Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(2400)]

SEED = 20261130
RANK_KILLS = 195
AGENT_KILLS = 5


def latest(job: Job, after: int, what: str, agent: Agent) -> tuple[int, list[int]]:
    """The generation after ``after`` that has come so far on both ranks, and their pids."""

    def come() -> tuple[int, list[int]] | None:
        assert not list(job.out.glob("*.wrong")), wrong(job)
        assert agent.process.poll() is None, job.outputs()[-4000:]
        names = [name.split(".")[0] for name in os.listdir(job.out) if name.endswith(f".{what}")]
        found = [int(name.split("-")[0]) for name in names if name.endswith("-0") and name[:-1] + "1" in names]
        if max(found, default=0) <= after:
            return None
        return max(found), [int((job.out / f"{max(found)}-{rank}.begun").read_text()) for rank in (0, 1)]

    try:
        return wait_until(f"a generation after {after}, {what}", come)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{job.outputs()[-4000:]}") from None


def wrong(job: Job) -> str:
    return "; ".join(path.read_text() for path in job.out.glob("*.wrong"))


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_at_two_hundred_random_instants(job: MakeJob) -> None:
    dice = random.Random(SEED)
    one = job(
        "--standalone", "--nproc-per-node=2", f"--max-restarts={RANK_KILLS + 50}", "--rdzv-id=kills",
        "--crash-loop=0", "--suspect-after=0",
        "--preload=torch.distributed.checkpoint,elaunch.checkpoint.checkpointer",
        program=[str(PROGRAMS / "resaving.py")],
    )  # fmt: skip
    agent = one.agent()
    generation = starts = 0
    for number in range(RANK_KILLS + AGENT_KILLS):
        what = dice.choice(["begun", "restored", "restored", "restored"])
        generation, pids = latest(one, generation, what, agent)
        starts += (one.out / f"{generation}-0.restored").exists()
        moment = time.monotonic() + dice.uniform(0, 0.15)
        wait_until("the moment", lambda at=moment: time.monotonic() >= at)
        if (number + 1) % ((RANK_KILLS + AGENT_KILLS) // AGENT_KILLS) == 0:
            agent.kill()
            agent.wait()
            wait_until("all of it is gone", lambda: not one.living())
            for path in one.out.glob("*-*.*"):  # not before: a rank that has just begun still leaves some
                path.unlink()
            agent, generation = one.agent(), 0
        else:
            kill(dice.choice([pids[:1], pids[1:], pids, pids[::-1]]))
    latest(one, generation, "restored", agent)
    one.finish()
    assert agent.wait() == 0, one.outputs()[-4000:]
    assert not wrong(one), wrong(one)
    assert starts > RANK_KILLS // 2
    private = Path(one.out / "checkpoints" / layout.PRIVATE)
    assert not list((private / "staging").iterdir())
    assert len(list((private / "claims").iterdir())) == 1
