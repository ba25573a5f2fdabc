"""Who leads where there are controllers and agents: controllers that can, and agents where there are none."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.controller.dedicated import place
from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controllers
from tests.e2e.harness import Job, wait_until
from tests.e2e.operating import elaunch
from tests.e2e.test_leaders import counting, finish

pytestmark = pytest.mark.slow


@pytest.fixture
def controllers(tmp_path: Path, etcd: str) -> Iterator[Controllers]:
    made = Controllers(tmp_path, etcd)
    yield made
    left = made.close()
    assert not left, left


def test_the_lead_goes_to_controllers_that_come_and_back_to_agents_when_all_are_gone(
    job: MakeJob, etcd: str, controllers: Controllers
) -> None:
    one = counting(job, etcd, "handover")
    epoch, agent = controllers.leader("handover")
    assert agent
    controller = controllers.start()
    wait_until("the agent hands over", lambda: controllers.leader("handover")[0] > epoch)
    epoch, leader = controllers.leading("handover")
    assert leader is controller
    controller.kill(signal.SIGTERM)
    assert controller.wait() == 0, controller.output()
    wait_until("an agent leads", lambda: controllers.leader("handover")[0] > epoch)
    assert controllers.leader("handover")[1] in {e["env"]["ELAUNCH_NODE_ID"] for e in one.events("start")}
    finish(one)


def test_operators_reach_a_controller_as_they_reach_an_agent(job: MakeJob, etcd: str, controllers: Controllers) -> None:
    controllers.start()
    one = counting(job, etcd, "operated", nodes=1)
    controllers.leading("operated")
    seen = elaunch("status", "operated", f"--etcd={etcd}", "--json")
    assert seen.code == 0, seen.err
    assert seen.document["phase"] == "running"
    asked = elaunch("restart", "operated", f"--etcd={etcd}", "--reason=test")
    assert asked.code == 0, asked.err
    one.steps_in(2, 1)
    one.finish()
    assert one.agents[0].wait() == 0, one.outputs()


def test_a_controller_that_no_agent_reaches_does_not_keep_the_lead(
    job: MakeJob, etcd: str, controllers: Controllers
) -> None:
    controllers.start("--local-addr=127.8.8.8")
    one = counting(job, etcd, "unreachable")
    leader = controllers.leader("unreachable")
    assert leader[1] in {e["env"]["ELAUNCH_NODE_ID"] for e in one.events("start")}
    good = controllers.start()
    assert controllers.leader("unreachable") == leader, "an agent that leads is not relieved by what failed before"
    one.agents[0].kill(signal.SIGTERM)
    assert one.agents[0].wait() == 143
    assert good.process.poll() is None
    one.finish()
    one.agents[1].wait()


def test_jobs_are_spread_over_the_controllers_and_forgotten_when_they_end(
    job: MakeJob, etcd: str, controllers: Controllers
) -> None:
    ids = [controllers.start().controller_id, controllers.start().controller_id]
    jobs: dict[str, Job] = {}

    def led(name: str) -> str:
        jobs[name] = counting(job, etcd, name, nodes=1)
        return controllers.leading(name)[1].controller_id

    for wanted in ids:
        first = (name for i in itertools.count() if place(wanted, ids, name := f"spread {i}") == 0)  # in line
        # The other one bids 0.3 s later: a machine that kept the first from its work meanwhile does not do so thrice.
        assert led(next(first)) == wanted or {led(next(first)), led(next(first))} == {wanted}
    for one in jobs.values():
        finish(one)
    wait_until("nobody leads them any more", lambda: {controllers.leader(name) for name in jobs} == {(0, "")})
    again = job(*one.options, program=one.program)
    again.agent()
    again.steps_in(2, 1)
    again.finish()
    assert again.agents[0].wait() == 0, again.outputs()
