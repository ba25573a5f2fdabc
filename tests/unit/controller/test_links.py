"""What the leader makes of the ports that agents tell of, and what becomes of the job by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from job_makers import Driver, running
from rank_makers import inside, outside

from elaunch.controller.commands import Start
from elaunch.controller.findings import Finding, lines, users
from elaunch.controller.heartbeat_messages import pack_heartbeat
from elaunch.controller.job_events import LinkFailed
from elaunch.controller.links import REST, Links
from elaunch.controller.messages import unpack_agent
from elaunch.controller.node_status import RunPhase
from elaunch.controller.rails import below_peers
from elaunch.controller.rerouting import MOST_RESTARTS, WINDOW
from elaunch.controller.vigil import PACE, Judgement, Vigil
from elaunch.links import CONGESTED, DOWN, ERRORS, FLAPPING, SLOW, PortReport, PortTrouble
from elaunch.progress import Heartbeat
from elaunch.rendezvous.memory import LinkFault
from elaunch.rendezvous.plan import Member
from elaunch.rendezvous.records import Phase, decode, encode
from elaunch.rendezvous.state import State
from elaunch.topology.machine import PortState

WALL = 1.7e9


def port(name: str = "p0", *troubles: str, ranks: Sequence[int] = (0, 1), rate: float | None = 400.0) -> PortReport:
    found = tuple(PortTrouble(code, f"is in trouble ({code})") for code in troubles)
    return PortReport(name, tuple(ranks), PortState.ACTIVE, rate=rate, troubles=found)


def beat(node: int, *ports: PortReport, every: bool = False, generation: int = 1) -> Heartbeat:
    return Heartbeat(f"n{node}", generation, 0.25, (), ports, every)


class Watch:
    """The ports of a job of so many nodes with two ranks each."""

    def __init__(self, nodes: int = 2) -> None:
        self.links = Links()
        self.members = [Member(f"n{n}", f"h{n}", 2, n, 2 * n, "default", 2 * n, 2 * nodes) for n in range(nodes)]
        self.links.follow(self.members, [m.node_id for m in self.members])
        self.now = 50.0

    def hear(self, *beats: Heartbeat, after: float = 1.0) -> tuple[Finding, ...]:
        self.now += after
        for one in beats:
            self.links.hear(one)
        return self.links.changes(self.now, WALL + self.now)


def told(findings: Sequence[Finding]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(finding.event, finding.host, finding.ranks) for finding in findings]


def test_a_trouble_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    watch = Watch()
    assert watch.hear(beat(1, port(), every=True)) == ()
    assert told(watch.hear(beat(1, port("p0", DOWN)))) == [("port_down", "h1", (2, 3))]
    for _ in range(3):
        assert watch.hear(beat(1, port("p0", DOWN))) == ()
    (over,) = watch.hear(beat(1))
    assert (over.event, over.text) == ("port_up", "port p0 of h1 (ranks 2-3) is up again, after 4 s")
    assert watch.hear(beat(1)) == ()


def test_each_trouble_of_a_port_is_one_of_its_own() -> None:
    watch = Watch()
    watch.hear(beat(0, port("p0", ERRORS, CONGESTED), port("p1", DOWN, ranks=(1,))))
    assert [(f.code, f.port) for f in watch.links.open] == [(DOWN, "p1"), (ERRORS, "p0"), (CONGESTED, "p0")]
    assert told(watch.hear(beat(0, port("p0", CONGESTED)))) == [
        ("port_errors_over", "h0", (0, 1)),
        ("port_up", "h0", (1,)),
    ]


def test_a_port_that_begins_to_flap_is_not_told_to_be_up() -> None:
    watch = Watch()
    watch.hear(beat(0, port("p0", DOWN)))
    assert told(watch.hear(beat(0, port("p0", FLAPPING)))) == [("port_flapping", "h0", (0, 1))]
    assert [f.event for f in watch.hear(beat(0, port("p0", DOWN)))] == ["port_flapping_over", "port_down"]


def test_a_message_that_is_lost_changes_nothing() -> None:
    watch = Watch()
    watch.hear(beat(0, port("p0", DOWN)))
    assert watch.hear() == ()
    assert watch.hear(beat(0, port("p0", DOWN), every=True)) == ()


def test_the_next_generation_does_not_tell_it_again() -> None:
    watch = Watch()
    watch.hear(beat(1, port("p0", DOWN)))
    watch.links.follow((), ["n0", "n1"])
    watch.links.follow([replace(watch.members[1], rank0=0), replace(watch.members[0], rank0=2)], ["n0", "n1"])
    assert watch.hear(beat(1, port("p0", DOWN, ranks=()), generation=2)) == ()
    assert [finding.ranks for finding in watch.links.open] == [()]
    watch.links.follow((), ["n0"])
    assert watch.links.open == ()


def test_a_node_whose_port_is_slower_than_on_the_others() -> None:
    watch = Watch(4)
    found = watch.hear(*(beat(n, port(rate=100.0 if n == 2 else 400.0), port("p1"), every=True) for n in range(4)))
    assert [(f.event, f.text, f.broken) for f in found] == [
        ("port_slow", "port p0 of h2 (ranks 4-5) runs at 100 Gbit/s; on 3 of 4 nodes it runs at 400", True)
    ]
    assert told(watch.hear(beat(2, port(), port("p1"), every=True))) == [("port_slow_over", "h2", (4, 5))]


def test_a_node_of_another_kind_is_told_but_not_left_without_ports() -> None:
    nodes = {f"n{n}": {"p0": 400.0, "p1": 400.0} for n in range(3)} | {"old": {"p0": 200.0, "p1": 200.0}}
    assert {port: below.whole for port, below in below_peers(nodes)["old"].items()} == {"p0": True, "p1": True}
    watch = Watch(4)
    rates = (400.0, 400.0, 400.0, 200.0)
    found = watch.hear(*(beat(n, port(rate=r), port("p1", rate=r), every=True) for n, r in enumerate(rates)))
    assert [(finding.code, finding.broken) for finding in found] == [(SLOW, False), (SLOW, False)]
    assert watch.links.faults == ()


@given(
    st.dictionaries(st.text(max_size=3), st.dictionaries(st.sampled_from("ab"), st.sampled_from([100.0, 200.0, 400.0])))
)
def test_no_port_is_slow_that_most_are_not_faster_than(nodes: dict[str, dict[str, float]]) -> None:
    for node, ports in below_peers(nodes).items():
        for name in ports:
            rates = [rates[name] for rates in nodes.values() if name in rates]
            assert 2 * sum(rate > nodes[node][name] for rate in rates) > len(rates) >= 3


def test_a_port_rests_before_it_is_used_again() -> None:
    watch = Watch()
    watch.hear(beat(0, port(), every=True))
    watch.hear(beat(0, port("p0", DOWN)))
    assert [(f.host, f.port, f.code, f.well) for f in watch.links.faults] == [("h0", "p0", DOWN, 0.0)]
    watch.hear(beat(0, every=False))
    assert watch.links.faults[0].well == WALL + watch.now
    watch.hear(beat(0, port("p0", ERRORS)), after=REST - 1)
    assert (watch.links.faults[0].code, watch.links.faults[0].well) == (ERRORS, 0.0)
    watch.hear(beat(0))
    watch.hear(after=REST - 1)
    assert len(watch.links.faults) == 1
    watch.hear(after=1.0)
    assert watch.links.faults == ()


def test_congestion_is_no_reason_to_leave_a_port() -> None:
    watch = Watch()
    watch.hear(beat(0, port("p0", CONGESTED)))
    assert watch.links.faults == ()


def test_the_next_leader_knows_and_does_not_tell_it_again() -> None:
    watch, after = Watch(), Watch()
    watch.hear(beat(0, port("p0", DOWN)))
    state = State(Phase.RUNNING, 1, 0, running(2, 2).job.reason, links=watch.links.faults, link_restarts=(WALL,))
    after.links.recall(decode(State, encode(state)).links)
    assert after.links.faults == watch.links.faults
    news = after.hear(beat(0, port("p0", DOWN)), beat(1, port("p0", DOWN)))
    assert told(news) == [("port_down", "h1", (2, 3))]
    assert [finding.host for finding in after.links.open] == ["h0", "h1"]
    assert told(after.hear(beat(0), beat(1, port("p0", DOWN)))) == [("port_up", "h0", (0, 1))]
    assert told(after.hear(beat(0, port("p0", DOWN)))) == [("port_down", "h0", (0, 1))]


def test_a_fault_of_a_node_that_came_back_with_a_good_port_ends() -> None:
    watch = Watch()
    watch.links.recall((LinkFault("h1", "p0", DOWN, "is down", WALL),))
    watch.hear(beat(1))
    assert watch.links.faults[0].well == 0.0  # nothing is known of it yet
    assert told(watch.hear(beat(1, port(), every=True))) == [("port_up", "h1", (2, 3))]
    assert watch.links.faults[0].well > 0.0
    assert watch.hear(beat(1, port(), every=True)) == ()
    assert told(watch.hear(beat(1, port("p0", DOWN)))) == [("port_down", "h1", (2, 3))]


def test_a_thousand_ports_at_once_are_a_few_lines() -> None:
    watch = Watch(1000)
    found = watch.hear(*(beat(n, port("p0", DOWN)) for n in range(1000)), beat(7, port("p0", ERRORS)))
    told_lines = lines(found)
    assert [event for event, _ in told_lines] == ["port_down"] * 17 + ["port_errors"]
    assert told_lines[16][1] == "so it is with 983 more ports"


def test_who_uses_a_port() -> None:
    assert [users(ranks) for ranks in ((), (3,), (0, 1, 2, 8), range(0, 20, 2))] == [
        "no rank uses it",
        "rank 3",
        "ranks 0-2, 8",
        "ranks 0, 2, 4, 6 and 6 more spans",
    ]


# --- hangs and stragglers ------------------------------------------------------------------------------------------


def judged(*beats: Heartbeat, **policy: Any) -> Judgement:
    driver = running(2, 2, hang_timeout=3.0, **policy)
    vigil = Vigil(driver.policy, driver.now)
    vigil.follow(driver.job, driver.now)
    for one in beats:
        assert vigil.hear(one, driver.now)
    found = vigil.judge(driver.now + PACE, WALL)
    assert found is not None
    return found


def test_the_sentence_on_a_hang_tells_of_the_culprits_port() -> None:
    others = [replace(inside(rank, 5, 9.0, size=4).progress) for rank in (0, 1, 2)]
    culprit = outside(3, 4, 9.0, size=4).progress
    beats = (
        Heartbeat("n0", 1, 0.25, tuple(others[:2]), (port("p7", DOWN),)),
        Heartbeat("n1", 1, 0.25, (others[2], culprit), (port("p0", ERRORS, ranks=(1,)),)),
    )
    hang = judged(*beats).hang
    assert hang is not None
    assert hang.culprits[0].rank == 3
    assert hang.text.endswith("; its port p0 is in trouble (port_errors)")


def test_where_the_transport_does_not_deliver_any_broken_port_is_told() -> None:
    ranks = [inside(rank, 5, 9.0, size=4).progress for rank in range(4)]
    beats = (
        Heartbeat("n0", 1, 0.25, tuple(ranks[:2]), (port("p7", CONGESTED),)),
        Heartbeat("n1", 1, 0.25, tuple(ranks[2:]), (port("p0", DOWN),)),
    )
    hang = judged(*beats).hang
    assert hang is not None
    assert hang.culprits == ()
    assert hang.text.endswith("; port p0 of h1 (ranks 2-3) is in trouble (port_down)")


# --- what becomes of the job ---------------------------------------------------------------------------------------

FAULT = LinkFault("h1", "p0", DOWN, "is down (Polling)", WALL)


def failed(driver: Driver) -> None:
    """A port of h1 breaks."""
    driver.job = replace(driver.job, links=(FAULT,))
    driver.happen(LinkFailed(driver.job.generation, "port p0 of h1 (ranks 2-3) is down (Polling)"))


def start(driver: Driver, node: int) -> Start:
    command = driver.command(node)
    assert isinstance(command, Start)
    return command


def again(driver: Driver) -> None:
    """What is being stopped is gone, and the next generation runs."""
    driver.everyone(RunPhase.STOPPED)
    driver.up()


def test_restart_begins_a_generation_without_the_port_and_costs_none() -> None:
    driver = running(2, 2, restarts=0, on_link_fault="restart")
    failed(driver)
    assert (driver.job.phase, driver.job.reason.code) == (Phase.ABORTING, "link_fault")
    again(driver)
    assert (driver.job.phase, driver.job.generation, driver.job.restart_count) == (Phase.RUNNING, 2, 0)
    assert start(driver, 1).avoid_ports == (("p0", "it is down (Polling)"),)
    assert start(driver, 0).avoid_ports == ()


def test_a_flapping_port_does_not_restart_for_ever() -> None:
    driver = running(2, 2, on_link_fault="restart")
    for _ in range(MOST_RESTARTS):
        failed(driver)
        again(driver)
    failed(driver)
    assert (driver.job.phase, driver.job.generation) == (Phase.RUNNING, 1 + MOST_RESTARTS)
    driver.another_leads()
    assert len(driver.job.link_restarts) == MOST_RESTARTS
    driver.everyone(RunPhase.RUNNING)
    failed(driver)
    assert driver.job.phase is Phase.RUNNING
    driver.wait(WINDOW)
    failed(driver)
    assert driver.job.phase is Phase.ABORTING
    assert len(driver.job.link_restarts) == 1


def test_redistribute_waits_for_the_next_generation() -> None:
    driver = running(2, 2, on_link_fault="redistribute")
    failed(driver)
    assert driver.job.phase is Phase.RUNNING
    driver.fail(0)
    again(driver)
    assert start(driver, 1).avoid_ports == (("p0", "it is down (Polling)"),)


def test_ports_that_are_well_are_the_first_to_be_used_all_the_same() -> None:
    driver = running(2, 2, on_link_fault="redistribute")
    ill, slow = replace(FAULT, port="p1"), replace(FAULT, port="p3", code=SLOW, text="is slow")
    well = [replace(FAULT, port=f"p{minutes}", well=WALL - minutes) for minutes in (7, 5, 9)]
    driver.job = replace(driver.job, links=(*well, slow, ill, replace(FAULT, host="elsewhere")))
    driver.fail(0)
    again(driver)
    assert [name for name, _ in start(driver, 1).avoid_ports] == ["p1", "p3", "p5", "p7", "p9"]
    assert start(driver, 1).avoid_ports[-1][1] == "until a short while ago it is down (Polling)"


def test_report_leaves_nothing_out() -> None:
    driver = running(2, 2)
    failed(driver)
    driver.fail(0)
    again(driver)
    assert (driver.job.generation, start(driver, 1).avoid_ports) == (2, ())


def test_a_fault_of_an_old_generation_or_of_a_job_that_ends_changes_nothing() -> None:
    driver = running(2, 2, on_link_fault="restart")
    driver.happen(LinkFailed(0, "late"))
    assert driver.job.phase is Phase.RUNNING
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    failed(driver)
    assert driver.job.phase is Phase.RUNNING


# --- the wire ------------------------------------------------------------------------------------------------------


def test_what_a_node_of_sixteen_ports_sends() -> None:
    """4,000 nodes: a heartbeat in 5 s each, all ports in 30 s, so 4,000 * size / 30 bytes a second for these."""
    ports = tuple(replace(port(f"mlx5_{n}:1", ranks=range(8)), sent=1.25e10, received=1.25e10) for n in range(16))
    alone = pack_heartbeat(beat(0), 1).ByteSize()
    every = pack_heartbeat(beat(0, *ports, every=True), 1).ByteSize() - alone
    one = pack_heartbeat(beat(0, replace(ports[0], troubles=(PortTrouble(DOWN, "is down (Polling)"),))), 1).ByteSize()
    assert every < 16 * 48
    assert one - alone < 96


def test_a_rise_beyond_what_the_wire_holds() -> None:
    highest = replace(port(), rose={"symbol_error": 2**64 - 1})
    (told_of,) = unpack_agent(pack_heartbeat(beat(0, highest), 1)).ports  # type: ignore[union-attr]
    assert told_of.rose == {"symbol_error": 2**63 - 1}


states = st.sampled_from(PortState)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
figures = st.none() | st.floats(0, 2**40, width=32)
reports = st.builds(
    PortReport,
    words,
    st.lists(st.integers(0, 1000), max_size=3).map(tuple),
    states,
    st.just(""),
    figures,
    figures,
    figures,
    st.dictionaries(words, st.integers(0, 2**62), max_size=2),
    st.lists(st.builds(PortTrouble, words, words), max_size=2).map(tuple),
)


@given(st.lists(reports, max_size=3).map(tuple), st.booleans())
def test_ports_come_out_of_a_message_as_they_went_in(ports: tuple[PortReport, ...], every: bool) -> None:
    said = beat(3, *ports, every=every)
    assert unpack_agent(pack_heartbeat(said, 1)) == said
