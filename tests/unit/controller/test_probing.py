"""Probes of a job's interfaces: when they hold the start up, for how long, and what follows from what they find."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from job_makers import START, Driver, make_node

from elaunch.controller.command_messages import pack_command, unpack_command
from elaunch.controller.commands import Probe, Start
from elaunch.controller.forming import waiting_for
from elaunch.controller.history import told
from elaunch.controller.job_events import NodeJoined, OperatorCommand, StatusReceived
from elaunch.controller.messages import unpack_agent
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.probe_asking import Asking
from elaunch.controller.probing import BOUND, OPERATOR_BOUND
from elaunch.controller.status_messages import pack_status
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.records import Phase, decode, encode
from elaunch.topology.probe.facts import Interface, PortNote, Report, Row, Target


def interfaces(number: int, rails: int = 2) -> tuple[Interface, ...]:
    return tuple(
        Interface(f"nic{r}", (f"10.0.{r}.{number + 1}/24",), f"fe80::{r}:{number}", 1500, 7000 + r)
        for r in range(rails)
    )


class Probed(Driver):
    """A job whose nodes tell of their interfaces, and report what the test says."""

    def __init__(self, nodes: int, rails: int = 2, **policy: object) -> None:
        super().__init__(nodes, nodes, **policy)
        self.rails = rails
        self.asking = Asking()
        self.asked: dict[str, Probe] = {}

    def come(self, *numbers: int) -> None:
        for number in numbers:
            self.happen(NodeJoined(make_node(number)))
            self.happen(StatusReceived(self.status(number)))
        self.asked.update(self.asking.new(self.job, self.now))

    def status(self, number: int) -> NodeStatus:
        return NodeStatus(f"n{number}", interfaces=interfaces(number, self.rails))

    def report(self, number: int, *dead: tuple[str, str]) -> None:
        """All is answered but for what has an end among ``dead``."""
        probe = self.asked[f"n{number}"]
        rows = tuple(
            Row(t.own, t.node_id, t.interface, not {(f"n{number}", t.own), (t.node_id, t.interface)} & set(dead))
            for t in probe.targets
            if t.own
        )
        status = replace(self.status(number), probe=Report(probe.id, rows))
        self.happen(StatusReceived(status))


def test_the_start_waits_until_all_have_reported() -> None:
    job = Probed(3)
    job.come(0, 1, 2)
    assert job.job.phase is Phase.WAITING
    assert waiting_for(job.job) == "3 nodes are here; their interfaces are being probed"
    assert job.asked.keys() == {"n0", "n1", "n2"}
    assert {probe.secret for probe in job.asked.values()} == {job.asked["n0"].secret}
    assert all(0 < probe.seconds < BOUND for probe in job.asked.values())
    job.report(0)
    job.report(1)
    assert job.job.phase is Phase.WAITING
    job.report(2)
    assert job.job.phase is Phase.STARTING
    assert job.job.findings == ()
    assert job.deadline() is None


def test_it_never_waits_longer_than_the_bound_whoever_comes_meanwhile() -> None:
    job = Probed(2, spares=1)
    job.come(0, 1)
    assert job.deadline() == BOUND
    job.wait(BOUND - 1.0)
    job.lose(1)
    job.come(2)
    assert job.job.phase is Phase.WAITING
    assert job.deadline() == 1.0
    job.wait(1.0)
    assert job.job.phase is Phase.STARTING
    assert [finding.code for finding in job.job.findings] in ([], ["probe_incomplete"])


def test_a_port_that_reaches_nobody_is_told_to_its_node_and_stands_in_the_plan() -> None:
    job = Probed(3)
    before = job.job
    job.come(0, 1, 2)
    for number in range(3):
        job.report(number, ("n1", "nic1"))
    job.commit()
    (finding,) = job.job.findings
    assert finding.text == "nic1 of h1 is up, but reaches none of nic1 of h0, nic1 of h2"
    (entry,) = [entry for entry in told(before, job.job) if entry.code == "interface_unreachable"]
    assert entry.loud
    starts = [job.command(number) for number in range(3)]
    assert all(isinstance(start, Start) for start in starts)
    assert [start.unreachable for start in starts if isinstance(start, Start)] == [
        (), (PortNote("nic1", finding.text),), ()
    ]  # fmt: skip
    plan = job.job.plan
    assert plan is not None
    assert decode(type(plan), encode(plan)) == plan
    before_change = job.command(1)
    for number in range(3):
        job.tell(number, RunPhase.STARTING, 1, interfaces=interfaces(number))
    job.another_leads()
    assert job.command(1) == before_change, "the next leader says the same"


@pytest.mark.parametrize("how", ["one interface each", "off", "nothing told"])
def test_what_need_not_be_probed_costs_no_time(how: str) -> None:
    job = Probed(2, 1 if how.startswith("one") else 0 if how.startswith("nothing") else 2)
    if how == "off":
        job = Probed(2, probe="off")
    job.come(0, 1)
    assert job.job.phase is Phase.STARTING
    assert not job.asked


def test_only_the_first_generation_waits() -> None:
    job = Probed(2)
    job.come(0, 1)
    for number in (0, 1):
        job.report(number)
    job.up()
    job.fail(0)
    job.everyone(RunPhase.STOPPED)
    assert (job.job.phase, job.job.generation) == (Phase.STARTING, 2)


def test_an_operator_asks_while_the_job_runs() -> None:
    job = Probed(2)
    job.come(0, 1)
    for number in (0, 1):
        job.report(number)
    job.up()
    for number in (0, 1):
        job.tell(number, RunPhase.RUNNING, 1, interfaces=interfaces(number))
    job.happen(OperatorCommand(Operation("op1", "probe", "ada@login1", 5.0, order=100)))
    job.asked.update(job.asking.new(job.job, job.now))
    assert job.job.operations[0].standing is Standing.ACCEPTED
    assert job.deadline() == OPERATOR_BOUND
    for number in (0, 1):
        job.report(number, ("n1", "nic1"))
    (operation,) = job.job.operations
    assert (operation.standing, operation.exit_code) == (Standing.DONE, 0)
    assert operation.answer == "4 ways between the interfaces of 2 nodes: 1 finding"
    (text,) = operation.answers.values()
    assert json.loads(text)[0]["code"] == "interface_unreachable"
    assert not job.job.probing
    assert job.job.phase is not Phase.ABORTING


def test_an_operators_probe_ends_though_a_node_says_nothing() -> None:
    job = Probed(2, 1)
    job.come(0, 1)
    job.happen(OperatorCommand(Operation("op1", "probe", "ada@login1", 5.0, order=100)))
    job.wait(OPERATOR_BOUND)
    (operation,) = job.job.operations
    assert operation.standing is Standing.DONE
    assert operation.answer == "0 ways between the interfaces of 2 nodes: there was nothing to try"


def test_a_node_without_a_part_in_it_is_not_asked_and_a_new_stream_is_asked_again() -> None:
    job = Probed(2)
    job.come(0, 1)
    assert [probe.id for probe in job.asking.of("n0")] == [job.asked["n0"].id]
    assert job.asking.of("n7") == []
    assert not list(job.asking.new(job.job, START)), "asked once"


def test_the_messages_come_back_as_they_were() -> None:
    target = Target("nic0", "n1", "nic1", "10.0.0.1", 7, 1500, 3)
    probe = Probe("start-1", b"\0secret", 2.5, (target,))
    assert unpack_command(pack_command(probe, 4)) == probe
    rows = (Row("nic0", "n1", "nic1", True, "nic1", "nic0", False, 1400, True), Row("a", "b", "c", False))
    status = NodeStatus("n0", interfaces=interfaces(1), probe=Report("start-1", rows, "oh"))
    assert unpack_agent(pack_status(status, 4)) == status
    assert unpack_agent(pack_status(NodeStatus("n0"), 4)) == NodeStatus("n0")


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0.1/99"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    status = NodeStatus("n0", interfaces=(Interface("nic0", (address,)),))
    with pytest.raises(ValueError, match="does not appear to be"):
        unpack_agent(pack_status(status, 4))
    with pytest.raises(ValueError, match="does not appear to be"):
        unpack_command(pack_command(Probe("p", b"", 1.0, (Target("a", "b", "c", address, 1, 0),)), 4))
