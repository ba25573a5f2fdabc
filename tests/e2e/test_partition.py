"""A node that is cut off, wherever the leader is: its ranks are dead before the others begin the next generation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import hosts
from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controllers
from tests.e2e.harness import PROGRAMS, Job, gone, wait_until
from tests.e2e.hosts import Hosts
from tests.etcd.servers import Member, start_single

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hosts.possible(), reason="needs root, and leave to make network namespaces"),
]

COUNTING = [str(PROGRAMS / "counting.py")]
CUT, OTHER = 1, 2
TTL = 5


@pytest.fixture(scope="module")
def net() -> Iterator[Hosts]:
    made = Hosts(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def etcd_at_bridge(net: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    member = start_single(tmp_path_factory.mktemp("etcd"), net.address(0))
    yield member
    member.kill()


@pytest.fixture
def controllers(tmp_path: Path, etcd_at_bridge: Member) -> Iterator[Controllers]:
    made = Controllers(tmp_path, etcd_at_bridge.endpoint)
    yield made
    assert not made.close()


@pytest.mark.parametrize("leader", ["cut-off-agent", "other-agent", "controller-there", "controller-with-it"])
def test_a_cut_off_node_is_dead_before_the_others_go_on(
    job: MakeJob, net: Hosts, etcd_at_bridge: Member, controllers: Controllers, leader: str
) -> None:
    if leader.startswith("controller"):
        where = net.at(CUT) if leader == "controller-with-it" else ()
        controllers.start(f"--listen={net.address(CUT if where else 0)}:0", where=where)
    two = job(
        "--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd_at_bridge.endpoint}", f"--rdzv-id={leader}",
        f"--rdzv-conf=lease_ttl={TTL},last_call_timeout=60", "--start=exec", program=COUNTING,
    )  # fmt: skip
    first = CUT if leader == "cut-off-agent" else OTHER
    begin(two, net, controllers, leader, first)
    (cut,) = [e["pid"] for e in two.events("start", generation=1) if e["host"] == net.address(CUT)]
    net.cut(CUT)
    try:
        began = wait_until("the other goes on", lambda: two.events("start", generation=2))[0]["t"]
        assert gone(cut), "the cut-off rank still runs"
        last = two.events("step", pid=cut)[-1]["t"]
        assert last < began, f"the cut-off rank's last step came {last - began:.3f} s after the next generation began"
        wait_until("it works", lambda: two.events("step", generation=2, world=1))
    finally:
        net.heal(CUT)
    two.steps_in(3, 2)
    two.finish()
    assert [agent.wait() for agent in two.agents] == [0, 0], two.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start")} == {"0"}
    assert not [e for e in two.events(generation=1) if e["t"] > began]


def begin(two: Job, net: Hosts, controllers: Controllers, leader: str, first: int) -> None:
    """Both agents run, and the wanted one leads."""
    agent = two.agent(where=net.at(first), HOST=net.address(first))
    if leader.startswith("controller"):
        controllers.leading(leader)
    else:
        wait_until("the first agent leads", lambda: "leading" in agent.output())
    second = CUT + OTHER - first
    two.agent(where=net.at(second), HOST=net.address(second))
    two.steps_in(1, 2)
