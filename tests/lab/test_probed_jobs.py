"""Jobs on hosts with two rails: what the probe before the first generation finds and tells."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job
from tests.e2e.operating import elaunch
from tests.etcd.servers import Member
from tests.lab.network import Network

pytestmark = pytest.mark.slow


def run(job: MakeJob, net: Network, etcd: Member, name: str) -> tuple[Job, str]:
    """A job without torch on all hosts, from its start to its end; and its events."""
    made = job(
        "--nnodes=3", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd.endpoint}", f"--rdzv-id={name}",
        "--start=exec", program=[str(PROGRAMS / "counting.py")],
    )  # fmt: skip
    for number in (1, 2, 3):
        made.agent(where=net.at(number))
    made.steps_in(1, 3)
    made.finish()
    assert [agent.wait() for agent in made.agents] == [0, 0, 0], made.outputs()
    return made, elaunch("events", name, f"--rdzv-endpoint={etcd.endpoint}").out


def test_faults_of_the_network_are_told_and_the_job_starts(job: MakeJob, three: Network, etcd: Member) -> None:
    three.plug(3, 0, into=1)
    three.mtu(2, 1, 1400)
    try:
        made, events = run(job, three, etcd, "faults")
    finally:
        three.plug(3, 0)
        three.mtu(2, 1, 1500)
    h1, h2, h3 = (three.host(number) for number in (1, 2, 3))
    crossed = f"nic0 of {h3} reaches nobody on its own rail, but nic1 of {h1}, nic1 of {h2}: its cable leads to"
    sizes = f"the MTUs of one rail differ: nic1 of {h2} has 1400, nic1 of {h1}, nic1 of {h3} 1500"
    for code, text in (("rails_crossed", crossed), ("mtu_differs", sizes)):
        assert code in events
        assert text in events
        assert made.outputs().count(f"warning: {code}") == 1, "whoever leads says it, once"


def test_where_all_is_well_nothing_is_said(job: MakeJob, three: Network, etcd: Member) -> None:
    made, events = run(job, three, etcd, "well")
    for code in ("unreachable", "crossed", "mtu_differs", "duplicate_route", "map_differs", "probe_"):
        assert code not in events
    assert "warning" not in made.outputs(), made.outputs()
