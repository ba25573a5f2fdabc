"""The schedule of a probe: every pair once, nobody twice in a round, in O(n) rounds; a bounded sample of many."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.topology.probe.facts import Interface, NodeFacts, several_ways
from elaunch.topology.probe.rounds import ALL_PAIRS, SAMPLE, distances, rails_of, rounds, targets
from tests.unit.topology.probe_world import nodes


@given(st.integers(0, ALL_PAIRS))
def test_every_pair_meets_once_and_nobody_twice_in_a_round(count: int) -> None:
    turns = rounds(count)
    for pairs in turns:
        assert max(Counter(node for pair in pairs for node in pair).values(), default=0) <= 1
    met = Counter(pair for pairs in turns for pair in pairs)
    assert met == {(a, b): 1 for b in range(count) for a in range(b)}
    assert len(turns) == (0 if count < 2 else count - 1 + count % 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(ALL_PAIRS + 1, 2000))
def test_of_many_nodes_a_sample_that_hangs_together(count: int) -> None:
    turns = rounds(count)
    assert len(turns) == SAMPLE
    for pairs in turns:
        assert (
            Counter(one for one, _ in pairs) == Counter(other for _, other in pairs) == dict.fromkeys(range(count), 1)
        )
        assert all(one != other for one, other in pairs)
    assert turns[0] == tuple((place, (place + 1) % count) for place in range(count)), "a ring of all"
    assert len(set(distances(count))) == SAMPLE


def test_each_interface_asks_its_own_rail_only_and_the_others_only_if_it_must() -> None:
    asked = targets(nodes(3))
    direct = [t for t in asked["n1"] if t.own]
    assert {(t.own, t.node_id, t.interface) for t in direct} == {
        (nic, peer, nic) for nic in ("nic0", "nic1") for peer in ("n2", "n3")
    }
    assert {t.interface for t in asked["n1"] if not t.own} == {"nic0", "nic1"}
    assert all(t.address.startswith("fe80:") for t in asked["n1"] if not t.own)


def test_agents_of_one_host_do_not_ask_each_other() -> None:
    one, two = nodes(2)
    beside = NodeFacts("n9", "h1", one.interfaces)
    assert {t.node_id for t in targets([one, beside, two])["n1"]} == {"n2"}
    assert not several_ways([one, beside])
    assert several_ways([one, beside, two])


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_to_find_out_with_one_interface_each(count: int) -> None:
    assert not several_ways(nodes(count, rails=1))


def test_rails_are_told_or_those_of_a_name_or_of_a_place() -> None:
    def node(name: str, *interfaces: tuple[str, int]) -> NodeFacts:
        return NodeFacts(name, name, tuple(Interface(nic, rail=rail) for nic, rail in interfaces))

    by_name = rails_of([node("a", ("x", -1), ("y", -1)), node("b", ("y", -1), ("x", -1))])
    assert by_name["a", "x"] == by_name["b", "x"] != by_name["a", "y"]
    by_place = rails_of([node("a", ("x", -1), ("y", -1)), node("b", ("p", -1), ("q", -1))])
    assert (by_place["a", "x"], by_place["b", "q"]) == (0, 1)
    told = rails_of([node("a", ("x", 1), ("y", 0)), node("b", ("x", 0), ("y", 1))])
    assert told["a", "x"] == told["b", "y"] == 1


def test_a_peer_is_asked_at_an_address_of_a_family_that_both_have() -> None:
    four, six = "192.0.2.1/24", "2001:db8::1/64"
    both = Interface("nic0", (four, six), "fe80::1", port=1)
    assert both.address_for(Interface("nic0", ("2001:db8::2/64",))) == "2001:db8::1"
    assert both.address_for(Interface("nic0", ("192.0.2.2/24",))) == "192.0.2.1"
    assert Interface("nic0", (four,), "fe80::1").address_for(Interface("x", (six,), "fe80::2")) == "fe80::1"
