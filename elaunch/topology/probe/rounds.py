"""Who asks whom, and when: rounds in which every node has one peer at most.

Up to ``ALL_PAIRS`` nodes every pair meets, by the circle method: one node stays, the others move on by one place in
each round, n - 1 rounds for an even number of nodes and n for an odd one, where each sits out once. Beyond that a
sample: each node asks ``SAMPLE`` others and is asked by as many, its neighbour in the order and then those about
n^(1/4), n^(2/4) and n^(3/4) places further on, so that whoever is cut off from some part of the fabric is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from elaunch.topology.probe.facts import Interface, NodeFacts, Target

ALL_PAIRS = 32
SAMPLE = 4
CROSSING_PEERS = 2  # whose other rails an interface that reaches nobody looks for

Pair = tuple[int, int]


def rounds(count: int) -> tuple[tuple[Pair, ...], ...]:
    """The pairs of ``count`` nodes, numbered from 0, that meet in each round; in a sample the first asks the second."""
    if count < 2:
        return ()
    if count > ALL_PAIRS:
        return tuple(_further(count, distance) for distance in distances(count))
    seats = count + count % 2  # an empty seat, where one sits out
    return tuple(_met(seats, count, turn) for turn in range(seats - 1))


def distances(count: int) -> tuple[int, ...]:
    """How many places further on each of many nodes asks."""
    return tuple(round(count ** (step / SAMPLE)) for step in range(SAMPLE))


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


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, with what is asked of it again and again."""

    node: NodeFacts
    addresses: frozenset[str]
    by_rail: dict[int, list[Interface]]

    def apart(self, other: _Place) -> bool:
        """Two agents on one machine see the same addresses."""
        return self.addresses.isdisjoint(other.addresses)


def targets(nodes: Sequence[NodeFacts]) -> dict[str, tuple[Target, ...]]:
    """What each node is to ask, by its id. Nodes of one host do not ask each other."""
    places = _places([node for node in nodes if node.interfaces])
    asked: dict[str, list[Target]] = {place.node.node_id: [] for place in places}
    both = len(places) <= ALL_PAIRS
    for number, pairs in enumerate(rounds(len(places))):
        for here, there in pairs:
            for one, other in ((here, there), (there, here)) if both else ((here, there),):
                if places[one].apart(places[other]):
                    asked[places[one].node.node_id] += _between(places[one], places[other], number)
    for number, place in enumerate(places):
        asked[place.node.node_id] += _elsewhere(number, places)
    return {node_id: tuple(of) for node_id, of in asked.items()}


def _places(nodes: Sequence[NodeFacts]) -> list[_Place]:
    rails = rails_of(nodes)
    found = []
    for node in nodes:
        by_rail: dict[int, list[Interface]] = defaultdict(list)
        for interface in node.interfaces:
            by_rail[rails[node.node_id, interface.name]].append(interface)
        found.append(_Place(node, frozenset(interface.address for interface in node.interfaces), by_rail))
    return found


def _met(seats: int, count: int, turn: int) -> tuple[Pair, ...]:
    circle = [0, *((turn + place) % (seats - 1) + 1 for place in range(seats - 1))]
    pairs = ((circle[place], circle[seats - 1 - place]) for place in range(seats // 2))
    return tuple((min(pair), max(pair)) for pair in pairs if max(pair) < count)


def _further(count: int, distance: int) -> tuple[Pair, ...]:
    return tuple((place, (place + distance) % count) for place in range(count))


def _between(here: _Place, there: _Place, number: int) -> Iterator[Target]:
    for rail, interfaces in here.by_rail.items():
        for own in interfaces:
            for other in there.by_rail.get(rail, ()):
                if other.port and (address := other.address_for(own)):
                    mtu = min(own.mtu, other.mtu)
                    yield Target(own.name, there.node.node_id, other.name, address, other.port, mtu, number)


def _elsewhere(number: int, places: Sequence[_Place]) -> Iterator[Target]:
    """Where a cable might lead that does not lead where it should.

    By the address on the wire where there is one: what a host does with addresses that belong to another interface
    (arp_ignore, rp_filter) hides it from any other.
    """
    here = places[number]
    if len(here.node.interfaces) < 2:
        return
    others = (places[(number + step) % len(places)] for step in range(1, len(places)))
    for there in islice((other for other in others if here.apart(other)), CROSSING_PEERS):
        for other in there.node.interfaces:
            if other.port and (address := other.link_local or other.address):
                yield Target("", there.node.node_id, other.name, address, other.port, 0)
