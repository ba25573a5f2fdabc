"""The interface that the operator or the policy chose carries an all-reduce of Gloo, and the other one none.

The kernel's counters prove it. A chosen one that leads nowhere is found before the first start, and left out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.operating import elaunch
from tests.etcd.servers import Member
from tests.lab.network import Network

pytestmark = [pytest.mark.slow, pytest.mark.torch]

PAYLOAD = 16 << 20  # bytes of the all-reduce of two ranks: each sends as much
NOTHING = 1 << 20  # what an interface may have sent besides, for the probe and for neighbours' addresses
HOSTS = (1, 2)


def begin(job: MakeJob, net: Network, etcd: Member, name: str, *options: str, **env: str) -> Job:
    made = job(
        "--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd.endpoint}", f"--rdzv-id={name}", *options,
        program=[str(PROGRAMS / "allreduce.py")], env={"OMP_NUM_THREADS": "1", **env},
    )  # fmt: skip
    for number in HOSTS:
        made.agent(where=net.at(number))
    return made


def counters(net: Network) -> Callable[[str], list[int]]:
    """The bytes that each of the hosts has sent by an interface since now."""
    names = ("nic0", "nic1", "ctl")
    before = {(number, name): net.sent(number, name) for number in HOSTS for name in names}
    return lambda name: [net.sent(number, name) - before[number, name] for number in HOSTS]


@pytest.mark.parametrize(
    "options",
    [("--nic-policy=0=nic1",), ("--nic-policy=0=nic0,nic1", "--exclude-nic=nic0")],
    ids=["map", "exclude"],
)
def test_the_chosen_interface_carries_the_traffic(
    job: MakeJob, three: Network, etcd: Member, options: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    sent = counters(three)
    made = begin(job, three, etcd, f"chosen-{request.node.callspec.id}", *options)
    assert [agent.wait() for agent in made.agents] == [0, 0], made.outputs()
    assert {event["told"].get("GLOO_SOCKET_IFNAME") for event in made.events("reduced")} == {"nic1"}
    assert min(sent("nic1")) > PAYLOAD
    assert max(sent("nic0")) < NOTHING
    assert max(sent("ctl")) < NOTHING


def test_one_that_leads_nowhere_is_found_and_left_out(job: MakeJob, three: Network, etcd: Member) -> None:
    sent = counters(three)
    three.unplug(2, 1)
    try:
        made = begin(job, three, etcd, "nowhere", "--nic-policy=0=nic0,nic1", STAY="1")
        wait_until("the all-reduce is done", lambda: len(made.events("reduced")) == 2)
        assert {event["told"].get("GLOO_SOCKET_IFNAME") for event in made.events("reduced")} == {"nic0"}
        names = f"nic1 of {three.host(1)}, nic1 of {three.host(2)}"
        text = f"no two of {names} reach each other, though they are up"
        assert text in made.outputs()
        events = elaunch("events", "nowhere", f"--rdzv-endpoint={etcd.endpoint}")
        assert text in events.out
        found = elaunch("doctor", "--job=nowhere", f"--rdzv-endpoint={etcd.endpoint}", "--json")
        assert found.code == 1, found.err
        assert [finding["code"] for finding in found.document["findings"]] == ["interface_unreachable"]
        three.plug(2, 1)
        mended = elaunch("doctor", "--job=nowhere", f"--rdzv-endpoint={etcd.endpoint}")
        assert (mended.code, "nothing is wrong" in mended.out) == (0, True), mended
    finally:
        three.plug(2, 1)
    made.finish()
    assert [agent.wait() for agent in made.agents] == [0, 0], made.outputs()
    assert min(sent("nic0")) > PAYLOAD
    assert max(sent("nic1")) < NOTHING
