"""Dedicated controllers that die, freeze or are cut off from etcd: another leads, and no rank notices."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controller, Controllers
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.etcd.servers import start_single

pytestmark = pytest.mark.slow

COUNTING = [str(PROGRAMS / "counting.py")]
PAUSE = 3.0  # seconds: no step may take so long, though leaders change and the machine is busy,
STALL = 15.0  # but for one, as a machine may stand still once


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
        *pauses, longest = sorted(b["t"] - a["t"] for a, b in itertools.pairwise(steps))
        assert longest < STALL, "a rank paused"
        assert max(pauses, default=0.0) < PAUSE, "a rank paused"


def finish(one: Job) -> None:
    one.finish()
    assert {agent.wait() for agent in one.agents} == {0}, one.outputs()
    check_undisturbed(one)
    for agent in one.agents:
        assert "stale command" not in agent.output()
        assert "lease_lost" not in agent.output()


def succeeded(controllers: Controllers, job: str, epoch: int) -> int:
    """The epoch of the next leader, once it leads."""
    wait_until("another leads", lambda: controllers.leader(job)[0] > epoch)
    return controllers.leading(job)[0]


@pytest.mark.timeout(300)
def test_a_leader_killed_frozen_or_cut_off_ten_times(job: MakeJob, tmp_path: Path) -> None:
    """Three jobs at once, each on an etcd of its own: most of the time is that of leases."""
    ways = (kill, freeze, cut_off)
    with ThreadPoolExecutor(len(ways)) as pool:
        running = [pool.submit(ten_times, way, job, tmp_path / way.__name__) for way in ways]
        for one in running:
            one.result()


def ten_times(lose: Callable[[Controller], Callable[[], None]], job: MakeJob, folder: Path) -> None:
    """Lose the leader ten times in a row; what ``lose`` returns brings it back when another leads."""
    folder.mkdir()
    member = start_single(folder)
    controllers = Controllers(folder, member.endpoint)
    name = lose.__name__
    try:
        for _ in range(2):
            controllers.start(behind_door=True)
        one = counting(job, member.endpoint, name)
        epoch, leader = controllers.leading(name)
        for _ in range(10):
            before = leader.output()
            back = lose(leader)
            if name == "kill":
                controllers.start(behind_door=True)
            epoch = succeeded(controllers, name, epoch)
            back()
            check_back(leader, before)
            leader = controllers.leading(name)[1]
        finish(one)
    finally:
        left = controllers.close()
        member.kill()
    assert not left, left


def kill(leader: Controller) -> Callable[[], None]:
    leader.kill()
    leader.wait()
    return lambda: None


def freeze(leader: Controller) -> Callable[[], None]:
    leader.kill(signal.SIGSTOP)
    return lambda: leader.kill(signal.SIGCONT)


def cut_off(leader: Controller) -> Callable[[], None]:
    assert leader.door
    leader.door.shut()
    return leader.door.unlock


def check_back(leader: Controller, before: str) -> None:
    """One that lives hears of its lease before it does anything else, and stands by again."""
    if leader.process.poll() is None:
        wait_until("it knows", lambda: leader.output().count("lease_lost") > before.count("lease_lost"))
        wait_until("it stands by", lambda: leader.output().count("standing_by") > before.count("standing_by"))
