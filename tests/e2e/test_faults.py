"""Ranks and agents that die: one new generation each, the old one gone first, and the training goes on."""

from __future__ import annotations

import itertools
import signal
import time

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import Agent, Job, gone, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch]

ELASTIC = ("--nproc-per-node=2", "--rdzv-backend=etcd", "--max-restarts=3")


def check_order(job: Job) -> None:
    """No rank of a generation began before the last sign of every older one."""
    last: dict[int, float] = {}
    first: dict[int, float] = {}
    for event in job.events():
        generation = event["generation"]
        last[generation] = max(last.get(generation, 0.0), event["t"])
        first.setdefault(generation, event["t"])
    numbers = sorted(first)
    for older, newer in itertools.pairwise(numbers):
        assert last[older] <= first[newer], f"generation {newer} began before {older} had ended"


def pids(job: Job, generation: int) -> list[int]:
    return [e["pid"] for e in job.events("start", generation=generation)]


def test_a_rank_killed_in_each_place(job: MakeJob) -> None:
    one = job("--nproc-per-node=2", "--max-restarts=4")
    one.fault("before_init", 1, 1)
    agent = one.agent()
    for generation, where in ((2, "all_reduce"), (3, "backward"), (4, "between_steps")):
        one.fault_after_start(where, 1, generation)
    one.steps_in(5, 2)
    one.finish()
    assert agent.wait() == 0, agent.output()
    assert [e["where"] for e in one.events("fault")] == ["before_init", "all_reduce", "backward", "between_steps"]
    assert {e["generation"] for e in one.events()} == {1, 2, 3, 4, 5}
    assert [e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in one.events("start", rank=1)] == list("01234")
    check_order(one)


def test_ten_kills_in_a_row(job: MakeJob) -> None:
    one = job("--nproc-per-node=2", "--max-restarts=10")
    agent = one.agent()
    for generation in range(1, 11):
        steps = one.steps_in(generation, 2)
        victim = next(e["pid"] for e in steps if e["rank"] == generation % 2)
        signal.pidfd_send_signal(_pidfd(victim), signal.SIGKILL)
    one.steps_in(11, 2)
    one.finish()
    assert agent.wait() == 0, agent.output()
    assert {e["generation"] for e in one.events()} == set(range(1, 12))
    check_order(one)


def _pidfd(pid: int) -> int:
    import os

    return os.pidfd_open(pid)


@pytest.mark.parametrize("victim", [0, 1])
def test_an_agent_killed_the_other_goes_on(job: MakeJob, etcd: str, victim: int) -> None:
    """Whichever of the two came first, and so led and hosted the store; and at once, not when its lease would end."""
    two = job(
        "--nnodes=1:2", f"--rdzv-endpoint={etcd}", f"--rdzv-id=kill{victim}", "--rdzv-conf=lease_ttl=90", *ELASTIC
    )
    agents = both(two)
    two.steps_in(1, 4)
    dead = pids_of(two, agents[victim], 1)
    killed = time.monotonic()
    agents[victim].kill()
    wait_until("the dead agent's ranks gone", lambda: all(gone(pid) for pid in dead), 15.0)
    assert time.monotonic() - killed < 15.0
    steps = two.steps_in(2, 2)
    two.finish()
    agents[victim].wait()
    assert agents[1 - victim].wait() == 0, two.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start", generation=2)} == {"0"}
    check_order(two)
    assert min(e["t"] for e in steps) - killed < 50.0


def test_an_agent_of_a_fixed_world_is_waited_for(job: MakeJob, etcd: str) -> None:
    two = job("--nnodes=2", f"--rdzv-endpoint={etcd}", "--rdzv-id=fixed", *ELASTIC)
    agents = both(two)
    two.steps_in(1, 4)
    agents[0].kill()
    wait_until("the other says that it waits", lambda: "1 of at least 2 nodes" in agents[1].output())
    assert agents[1].process.poll() is None
    agents[0].wait()
    late = two.agent()
    two.steps_in(2, 4)
    two.finish()
    assert [agents[1].wait(), late.wait()] == [0, 0], two.outputs()


def test_a_fixed_world_gives_up_at_the_join_timeout(job: MakeJob, etcd: str) -> None:
    two = job(
        "--nnodes=2", f"--rdzv-endpoint={etcd}", "--rdzv-id=giveup", "--rdzv-conf=join_timeout=9", *ELASTIC
    )  # fmt: skip
    agents = both(two)
    two.steps_in(1, 4)
    agents[0].kill()
    assert agents[1].wait() == 75, two.outputs()
    assert "1 of at least 2 nodes came within 9 s (join_timeout)" in agents[1].output()
    agents[0].wait()


def test_a_late_node_grows_the_world_and_sigterm_shrinks_it(job: MakeJob, etcd: str) -> None:
    two = job(
        "--nnodes=1:2", f"--rdzv-endpoint={etcd}", "--rdzv-id=grow", "--rdzv-conf=last_call_timeout=0.5", *ELASTIC
    )  # fmt: skip
    first = two.agent()
    two.steps_in(1, 2)
    second = two.agent()
    two.steps_in(2, 4)
    second.kill(signal.SIGTERM)
    assert second.wait() == 143, two.outputs()
    two.steps_in(3, 2)
    two.finish()
    assert first.wait() == 0, two.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start")} == {"0"}
    check_order(two)


def both(job: Job) -> list[Agent]:
    """Two agents, the first of which leads and comes first in rank."""
    first = job.agent()
    wait_until("the first agent leads", lambda: "leading" in first.output())
    return [first, job.agent()]


def pids_of(job: Job, agent: Agent, generation: int) -> list[int]:
    mine = {child.pid for child in agent.children()}
    found = [pid for pid in pids(job, generation) if pid in mine]
    assert found
    return found


def test_a_spawner_process_that_dies_costs_one_restart(job: MakeJob) -> None:
    """It may be the largest process when memory runs out: its ranks die with it, the agent starts another."""
    one = job("--nproc-per-node=2", "--max-restarts=1")
    agent = one.agent()
    one.steps_in(1, 2)
    agent.child("spawner_process").kill()
    one.steps_in(2, 2)
    one.finish()
    assert agent.wait() == 0, agent.output()
    check_order(one)
