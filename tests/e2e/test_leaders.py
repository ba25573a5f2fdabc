"""Dedicated controllers that die, freeze or are cut off from etcd: another leads, and no rank notices."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controller, Controllers
from tests.e2e.harness import PROGRAMS, Job, wait_until

pytestmark = pytest.mark.slow

COUNTING = [str(PROGRAMS / "counting.py")]
PAUSE = 1.0  # seconds: no step may take so long, though leaders change


@pytest.fixture
def controllers(tmp_path: Path, etcd: str) -> Iterator[Controllers]:
    made = Controllers(tmp_path, etcd)
    yield made
    left = made.close()
    assert not left, left


def counting(job: MakeJob, etcd: str, name: str, nodes: int = 2, **env: str) -> Job:
    """A job of ``nodes`` agents with one rank each, that all count."""
    made = job(f"--nnodes={nodes}", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}",
               "--max-restarts=3", "--start=exec", program=COUNTING)  # fmt: skip
    for _ in range(nodes):
        made.agent(**env)
    made.steps_in(1, nodes)
    return made


def check_undisturbed(one: Job) -> None:
    """One generation, one process for each rank, every step once and none late."""
    starts = one.events("start")
    assert {e["generation"] for e in one.events()} == {1}, one.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in starts} == {"0"}
    for start in starts:
        steps = one.events("step", rank=start["rank"])
        assert [e["step"] for e in steps] == list(range(len(steps)))
        assert max(b["t"] - a["t"] for a, b in itertools.pairwise(steps)) < PAUSE, "a rank paused"


def finish(one: Job) -> None:
    one.finish()
    assert {agent.wait() for agent in one.agents} == {0}, one.outputs()
    check_undisturbed(one)
    for agent in one.agents:
        assert "stale_command" not in agent.output()
        assert "lease_lost" not in agent.output()


def succeeded(controllers: Controllers, job: str, epoch: int) -> int:
    """The epoch of the next leader, once it leads."""
    wait_until("another leads", lambda: controllers.leader(job)[0] > epoch, 15.0)
    return controllers.leading(job)[0]


def test_a_leader_killed_ten_times(job: MakeJob, etcd: str, controllers: Controllers) -> None:
    for _ in range(2):
        controllers.start()
    one = counting(job, etcd, "killed")
    epoch, leader = controllers.leading("killed")
    for _ in range(10):
        leader.kill()
        leader.wait()
        controllers.start()
        epoch = succeeded(controllers, "killed", epoch)
        leader = controllers.leading("killed")[1]
    finish(one)


def test_a_leader_frozen_and_woken_ten_times(job: MakeJob, etcd: str, controllers: Controllers) -> None:
    for _ in range(2):
        controllers.start()
    one = counting(job, etcd, "frozen leader")
    epoch, leader = controllers.leading("frozen leader")
    for i in range(10):
        leader.kill(signal.SIGSTOP)
        epoch = succeeded(controllers, "frozen leader", epoch)
        leader.kill(signal.SIGCONT)
        check_woke(leader, i)
        leader = controllers.leading("frozen leader")[1]
    finish(one)


def check_woke(leader: Controller, times: int) -> None:
    """It hears of its lease before it does anything else, and stands by again."""
    wait_until("it knows", lambda: leader.output().count("lease_lost") > times // 2, 10.0)
    wait_until("it stands by", lambda: leader.output().count("standing_by") > times // 2 + 1, 10.0)


def test_a_leader_cut_off_from_etcd_ten_times(job: MakeJob, etcd: str, controllers: Controllers) -> None:
    for _ in range(2):
        controllers.start(behind_door=True)
    one = counting(job, etcd, "cut off")
    epoch, leader = controllers.leading("cut off")
    for i in range(10):
        assert leader.door
        leader.door.shut()
        epoch = succeeded(controllers, "cut off", epoch)
        leader.door.unlock()
        check_woke(leader, i)
        leader = controllers.leading("cut off")[1]
    finish(one)
