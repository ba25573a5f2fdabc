"""The lease: a frozen agent's ranks are killed without it, an etcd that is away for a while is not noticed."""

from __future__ import annotations

import itertools
import signal
import time

import psutil
import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import Job, gone, wait_until
from tests.e2e.test_faults import both, check_order, pids_of
from tests.etcd.servers import Member

pytestmark = [pytest.mark.slow, pytest.mark.torch]

TTL = 6
OPTIONS = ("--nproc-per-node=1", "--rdzv-backend=etcd", "--max-restarts=3")


def test_a_frozen_agent_loses_its_ranks_at_the_deadline_and_joins_again(job: MakeJob, etcd: str) -> None:
    two = job(
        "--nnodes=1:2", f"--rdzv-endpoint={etcd}", "--rdzv-id=frozen", f"--rdzv-conf=lease_ttl={TTL}", *OPTIONS
    )  # fmt: skip
    agents = both(two)
    two.steps_in(1, 2)
    (rank,) = pids_of(two, agents[1], 1)
    agents[1].kill(signal.SIGSTOP)
    check_gone_in_time(two, rank, time.monotonic())
    two.steps_in(2, 1)
    agents[1].kill(signal.SIGCONT)
    steps = two.steps_in(3, 2)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert agents[1].output().count("deadline_passed") == 1, agents[1].output()
    assert "lease_lost" in agents[1].output()
    assert "warning: rank_failed" not in agents[1].output(), agents[1].output()
    nodes = {e["env"]["ELAUNCH_NODE_ID"] for e in two.events("start")}
    assert len(nodes) == 3, "the woken agent came back under a new node id"
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start")} == {"0"}
    assert steps
    check_order(two)


def check_gone_in_time(job: Job, rank: int, frozen: float) -> None:
    """By the rank's own clock: its last sign is as late as its end, however late this process sees that."""
    wait_until("the others go on", lambda: job.events("start", generation=2))
    assert gone(rank), "the others went on before the frozen agent's rank was gone"
    last = max(e["t"] for e in job.events("step", pid=rank))
    assert last < min(e["t"] for e in job.events("start", generation=2))
    assert last - frozen < TTL, "the ranks must be gone before the lease can end"


def test_ranks_whose_agent_and_spawner_are_frozen_end_before_the_lease_does(job: MakeJob, etcd: str) -> None:
    """Nobody is left to kill them: they see to it themselves."""
    two = job("--nnodes=1:2", f"--rdzv-endpoint={etcd}", "--rdzv-id=icy", f"--rdzv-conf=lease_ttl={TTL}", *OPTIONS)
    agents = both(two)
    two.steps_in(1, 2)
    (rank,) = pids_of(two, agents[1], 1)
    spawner = psutil.Process(rank).parent()
    assert spawner is not None
    agents[1].kill(signal.SIGSTOP)
    frozen = time.monotonic()
    spawner.suspend()
    check_gone_in_time(two, rank, frozen)
    two.steps_in(2, 1)
    spawner.resume()
    agents[1].kill(signal.SIGCONT)
    two.steps_in(3, 2)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert "this node's lease ends" in agents[1].output()
    assert "warning: rank_failed" not in agents[1].output(), agents[1].output()
    check_order(two)


def test_a_frozen_leader_is_replaced_and_does_nothing_when_it_wakes(job: MakeJob, etcd: str) -> None:
    two = job(
        "--nnodes=1:2", f"--rdzv-endpoint={etcd}", "--rdzv-id=frozenlead", f"--rdzv-conf=lease_ttl={TTL}", *OPTIONS
    )  # fmt: skip
    agents = both(two)
    two.steps_in(1, 2)
    agents[0].kill(signal.SIGSTOP)
    two.steps_in(2, 1)
    agents[0].kill(signal.SIGCONT)
    two.steps_in(3, 2)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert {e["generation"] for e in two.events()} == {1, 2, 3}
    check_order(two)


def test_an_etcd_that_comes_back_in_time_is_not_noticed(job: MakeJob, own_etcd: Member) -> None:
    two = job(
        "--nnodes=2", f"--rdzv-endpoint={own_etcd.endpoint}", "--rdzv-id=outage", "--rdzv-conf=lease_ttl=12", *OPTIONS
    )  # fmt: skip
    agents = both(two)
    two.steps_in(1, 2)
    own_etcd.kill()
    down = time.monotonic()
    wait_until("training goes on without etcd", lambda: two.events("step")[-1]["t"] > down + 2.0)
    own_etcd.start()
    up = time.monotonic()
    wait_until("it goes on past the lease's time", lambda: two.events("step")[-1]["t"] > up + 14.0)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert {e["generation"] for e in two.events()} == {1}
    steps = [e["t"] for e in two.events("step", rank=0)]
    assert max(b - a for a, b in itertools.pairwise(steps)) < 10.0, "training paused"


def test_an_etcd_that_comes_back_after_the_lease_costs_a_generation_and_no_restart(
    job: MakeJob, own_etcd: Member
) -> None:
    conf = f"--rdzv-conf=lease_ttl={TTL},etcd_timeout=60"
    two = job("--nnodes=2", f"--rdzv-endpoint={own_etcd.endpoint}", "--rdzv-id=late", conf, *OPTIONS)
    agents = both(two)
    two.steps_in(1, 2)
    own_etcd.kill()
    wait_until("the leases to be given up", lambda: all("lease_lost" in agent.output() for agent in agents))
    own_etcd.start()
    two.steps_in(2, 2)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start")} == {"0"}
    check_order(two)


def test_an_etcd_that_never_returns_ends_the_job(job: MakeJob, own_etcd: Member) -> None:
    conf = f"--rdzv-conf=lease_ttl={TTL},etcd_timeout=2"
    two = job("--nnodes=2", f"--rdzv-endpoint={own_etcd.endpoint}", "--rdzv-id=gone", conf, *OPTIONS)
    agents = both(two)
    two.steps_in(1, 2)
    own_etcd.kill()
    assert [agent.wait() for agent in agents] == [69, 69], two.outputs()
    for agent in agents:
        last = agent.output().strip().splitlines()[-1]
        assert last.startswith("elaunch: error:"), last
        assert own_etcd.endpoint in last
        assert "did not answer" in last
    assert all(gone(e["pid"]) for e in two.events("start"))


def test_a_stop_signal_ends_a_node_that_waits_for_a_lost_etcd(job: MakeJob, own_etcd: Member) -> None:
    one = job(
        "--rdzv-id=waits", f"--rdzv-endpoint={own_etcd.endpoint}", "--rdzv-conf=lease_ttl=2,etcd_timeout=60", *OPTIONS
    )  # fmt: skip
    agent = one.agent()
    one.steps_in(1, 1)
    own_etcd.kill()
    wait_until("the lease to be given up", lambda: "lease_lost" in agent.output())
    agent.kill(signal.SIGTERM)
    assert agent.wait(20) == 143, agent.output()
