"""What a probe's answers say, on networks with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.topology.probe.facts import NodeFacts, Row
from elaunch.topology.probe.rounds import ALL_PAIRS
from tests.unit.topology.probe_world import World, nodes


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.integers(1, 4))
def test_a_healthy_network_gives_no_findings(count: int, rails: int) -> None:
    assert World(nodes(count, rails)).verdict().findings == ()


@pytest.mark.parametrize("count", [3, 8, ALL_PAIRS + 8])
def test_an_interface_that_leads_nowhere(count: int) -> None:
    verdict = World(nodes(count), {("n2", "nic1"): None}).verdict()
    (finding,) = verdict.findings
    assert finding.code == "interface_unreachable"
    assert finding.text.startswith("nic1 of h2 is up, but reaches none of nic1 of h")
    assert finding.nodes == ("n2",)
    assert {node: [note.interface for note in of] for node, of in verdict.unreachable.items()} == {"n2": ["nic1"]}


def test_between_two_nodes_nobody_can_say_whose_interface_it_is() -> None:
    verdict = World(nodes(2), {("n2", "nic1"): None}).verdict()
    (finding,) = verdict.findings
    assert finding.text.startswith("no two of nic1 of h1, nic1 of h2 reach each other")
    assert verdict.unreachable.keys() == {"n1", "n2"}


def test_a_whole_rail_that_is_off_is_told_once() -> None:
    world = World(nodes(5), {(f"n{n}", "nic1"): None for n in range(1, 6)})
    verdict = world.verdict()
    assert world.codes() == ["interface_unreachable"]
    assert len(verdict.unreachable) == 5


def test_rails_of_one_host_that_are_swapped() -> None:
    verdict = World(nodes(3), {("n3", "nic0"): 1, ("n3", "nic1"): 0}).verdict()
    assert [finding.code for finding in verdict.findings] == ["rails_crossed"] * 2
    text = (
        "nic0 of h3 reaches nobody on its own rail, but nic1 of h1, nic1 of h2: its cable leads to that rail's switch"
    )
    assert verdict.findings[0].text == text
    assert verdict.findings[0].nodes == ("n3",)


def test_swapped_rails_of_two_hosts_are_told_without_blame() -> None:
    world = World(nodes(2), {("n2", "nic0"): 1, ("n2", "nic1"): 0})
    assert world.codes() == ["rails_crossed"] * 2
    assert world.verdict().findings[0].text.startswith("nic0 of h1 and nic1 of h2 reach each other, and nobody of")


def test_whoever_has_only_a_crossed_peer_is_not_told_besides() -> None:
    verdict = World(nodes(2), {("n2", "nic0"): 1}).verdict()
    (finding,) = verdict.findings
    assert finding.text.startswith("nic0 of h2 reaches nobody on its own rail, but nic1 of h1")
    assert {node: [note.interface for note in of] for node, of in verdict.unreachable.items()} == {
        "n1": ["nic0"], "n2": ["nic0"]
    }  # fmt: skip


def test_two_nodes_that_do_not_reach_each_other() -> None:
    verdict = World(nodes(4, rails=1), cut={frozenset(("n1", "n3"))}).verdict()
    (finding,) = verdict.findings
    assert finding.code == "pair_unreachable"
    assert finding.text.startswith("nic0 of h1 and nic0 of h3 do not reach each other")
    assert verdict.unreachable == {}


def test_an_mtu_that_a_host_has_for_itself() -> None:
    made = nodes(3)
    first, second = made[1].interfaces
    made[1] = replace(made[1], interfaces=(first, replace(second, mtu=1500)))
    (finding,) = World(made).verdict().findings
    assert finding.code == "mtu_differs"
    assert finding.text == "the MTUs of one rail differ: nic1 of h2 has 1500, nic1 of h1, nic1 of h3 9000"


def test_a_cable_that_takes_less_than_the_interfaces_say() -> None:
    (finding,) = World(nodes(4), sizes={("n2", "nic1"): 1500}).verdict().findings
    assert finding.code == "mtu_differs"
    assert finding.text.startswith(
        "datagrams of 9000 bytes are lost between nic1 of h2 and nic1 of h1, nic1 of h3, nic1 of h4"
    )


def test_what_leaves_by_another_interface_is_named() -> None:
    def wrong(node_id: str, row: Row) -> Row:
        return replace(row, egress="nic0") if node_id in ("n1", "n2") else row

    (finding,) = World(nodes(3), wrong=wrong).verdict().findings
    assert finding.code == "duplicate_route"
    assert finding.text.startswith("what nic1 of h1, nic1 of h2 sends from its own address leaves by nic0")


def test_a_host_that_answers_for_any_address_on_every_interface() -> None:
    def wrong(node_id: str, row: Row) -> Row:
        return replace(row, arrived="nic0") if (row.node_id, row.interface) == ("n2", "nic1") else row

    (finding,) = World(nodes(3), wrong=wrong).verdict().findings
    assert finding.code == "duplicate_route"
    assert "the address of nic1 of h2 comes in by nic0" in finding.text


def test_two_interfaces_in_one_subnet_are_named() -> None:
    def beside(node: NodeFacts, number: int) -> NodeFacts:
        addresses = (f"10.0.0.{number}/24", f"10.0.0.{number + 10}/24")
        moved = (replace(i, addresses=(a,)) for i, a in zip(node.interfaces, addresses, strict=True))
        return replace(node, interfaces=tuple(moved))

    made = [beside(node, number) for number, node in enumerate(nodes(2), 1)]
    assert World(made).codes() == [], "each leaves by its own: there are rules for that"
    (finding,) = World(made, wrong=lambda _, row: replace(row, egress="")).verdict().findings
    assert finding.code == "duplicate_route"
    assert finding.text.startswith("nic0, nic1 of h1, h2 are in one subnet, 10.0.0.0/24")


def test_hosts_with_another_map() -> None:
    made = [replace(node, map_digest="aa" if node.host == "h3" else "bb") for node in nodes(4)]
    (finding,) = World(made).verdict().findings
    assert finding.code == "map_differs"
    assert finding.text.startswith("the map of devices and ports of h3 differs from that of h1, h2, h4")


def test_where_no_datagram_passes_nothing_is_forbidden() -> None:
    verdict = World(nodes(3), udp=False).verdict()
    (finding,) = verdict.findings
    assert (finding.code, finding.severity) == ("probe_unanswered", "info")
    assert verdict.unreachable == {}


def test_a_node_whose_every_interface_is_lost_is_named_and_keeps_its_ports() -> None:
    world = World(nodes(3), {("n2", "nic0"): None, ("n2", "nic1"): None})
    assert world.codes() == ["interface_unreachable"] * 2
    assert world.verdict().unreachable == {}


def test_a_node_that_says_nothing_in_time_is_named() -> None:
    world = World(nodes(3), silent={"n2"})
    assert world.codes() == ["probe_incomplete"]


@settings(deadline=None)
@given(
    st.integers(2, 6),
    st.dictionaries(
        st.tuples(st.sampled_from([f"n{n}" for n in range(1, 7)]), st.sampled_from(["nic0", "nic1"])),
        st.sampled_from([None, 0, 1, 7]),
        max_size=5,
    ),
    st.sets(st.sampled_from([f"n{n}" for n in range(1, 7)])),
)
def test_whatever_is_wrong_the_verdict_is_the_same_in_any_order_and_leaves_a_port(
    count: int, plugged: dict[tuple[str, str], int | None], silent: set[str]
) -> None:
    world = World(nodes(count), plugged, silent=silent)
    verdict = world.verdict()
    backward = World(list(reversed(world.nodes)), plugged, silent=silent).verdict()
    assert {n: {note.interface for note in of} for n, of in verdict.unreachable.items()} == {
        n: {note.interface for note in of} for n, of in backward.unreachable.items()
    }
    assert all(len(of) < 2 for of in verdict.unreachable.values())
    assert all(finding.text and "\n" not in finding.text for finding in verdict.findings)
