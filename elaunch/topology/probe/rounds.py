"""Who asks whom, and when: rounds in which every node has one peer at most.

Up to ``ALL_PAIRS`` nodes every pair meets, by the circle method: one node stays, the others move on by one place in
each round, n - 1 rounds for an even number of nodes and n for an odd one, where each sits out once. Beyond that a
sample: in round k each node asks the one 2^k places further on, so that ceil(log2 n) rounds leave no two nodes more
than as many steps apart, and each interface has been asked from as many sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from elaunch.topology.probe.facts import Interface, NodeFacts, Target

ALL_PAIRS = 32
CROSSING_PEERS = 3  # whose other rails an interface that reaches nobody looks for

Pair = tuple[int, int]


def rounds(count: int) -> tuple[tuple[Pair, ...], ...]:
    """The pairs of ``count`` nodes, numbered from 0, that meet in each round."""
    if count < 2:
        return ()
    if count > ALL_PAIRS:
        return tuple(_further(count, 1 << k) for k in range((count - 1).bit_length()))
    seats = count + count % 2  # an empty seat, where one sits out
    return tuple(_met(seats, count, turn) for turn in range(seats - 1))


def rails_of(nodes: Sequence[NodeFacts]) -> dict[tuple[str, str], int]:
    """The rail of each interface by node and name: by what the nodes say, else by name, else by place.

    Where all nodes know their rails those count. Else interfaces of one name are a rail where all nodes have the same
    names, and otherwise those at the same place in their node's order.
    """
    with_any = [node for node in nodes if node.interfaces]
    told = all(interface.rail >= 0 for node in with_any for interface in node.interfaces)
    names = {tuple(sorted(interface.name for interface in node.interfaces)) for node in with_any}
    rails = {}
    for node in with_any:
        order = sorted(i.name for i in node.interfaces) if len(names) == 1 else [i.name for i in node.interfaces]
        for interface in node.interfaces:
            rails[node.node_id, interface.name] = interface.rail if told else order.index(interface.name)
    return rails


def several_ways(nodes: Sequence[NodeFacts]) -> bool:
    """Whether there is anything to be found out: two hosts, and one with more than one interface."""
    places = {frozenset(interface.address for interface in node.interfaces) for node in nodes}
    return len(places) > 1 and any(len(node.interfaces) > 1 for node in nodes)


def targets(nodes: Sequence[NodeFacts]) -> dict[str, tuple[Target, ...]]:
    """What each node is to ask, by its id. Nodes of one host do not ask each other."""
    nodes = [node for node in nodes if node.interfaces]
    rails = rails_of(nodes)
    asked: dict[str, list[Target]] = {node.node_id: [] for node in nodes}
    for number, pairs in enumerate(rounds(len(nodes))):
        for pair in pairs:
            for here, there in permutations((nodes[pair[0]], nodes[pair[1]])):
                if not same_host(here, there):
                    asked[here.node_id] += _between(here, there, rails, number)
    return {node.node_id: (*asked[node.node_id], *_elsewhere(node, nodes)) for node in nodes}


def same_host(one: NodeFacts, other: NodeFacts) -> bool:
    """Two agents on one machine see the same addresses."""
    return bool({i.address for i in one.interfaces} & {i.address for i in other.interfaces})


def _met(seats: int, count: int, turn: int) -> tuple[Pair, ...]:
    circle = [0, *((turn + place) % (seats - 1) + 1 for place in range(seats - 1))]
    pairs = ((circle[place], circle[seats - 1 - place]) for place in range(seats // 2))
    return tuple((min(pair), max(pair)) for pair in pairs if max(pair) < count)


def _further(count: int, distance: int) -> tuple[Pair, ...]:
    return tuple((place, (place + distance) % count) for place in range(count))


def _between(here: NodeFacts, there: NodeFacts, rails: dict[tuple[str, str], int], number: int) -> Iterator[Target]:
    for own in here.interfaces:
        for other in there.interfaces:
            same = rails[here.node_id, own.name] == rails[there.node_id, other.name]
            if same and other.port and (address := other.address_for(own)):
                mtu = min(own.mtu, other.mtu)
                yield Target(own.name, there.node_id, other.name, address, other.port, mtu, number)


def _elsewhere(here: NodeFacts, nodes: Sequence[NodeFacts]) -> Iterator[Target]:
    """Where a cable might lead that does not lead where it should.

    By the address on the wire where there is one: what a host does with addresses that belong to another interface
    (arp_ignore, rp_filter) hides it from any other.
    """
    if len(here.interfaces) < 2:
        return
    place = nodes.index(here)
    others = (nodes[(place + step) % len(nodes)] for step in range(1, len(nodes)))
    apart = [other for other in others if not same_host(here, other)][:CROSSING_PEERS]
    for there in apart:
        for other in there.interfaces:
            if other.port and (address := _on_the_wire(other)):
                yield Target("", there.node_id, other.name, address, other.port, 0)


def _on_the_wire(interface: Interface) -> str:
    return interface.link_local or interface.address
