"""Interfaces whose cable leads to another rail. Values only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from elaunch.topology.probe.facts import Finding
from elaunch.topology.probe.reach import Port, Reach, listed


def crossed(reach: Reach, lost: Sequence[Port]) -> Iterator[tuple[Finding, tuple[Port, ...]]]:
    """What is said of those among ``lost`` that reach another rail's interfaces, and whom it is about."""
    told: set[frozenset[Port]] = set()
    for port in lost:
        others = elsewhere(reach, port)
        if not others:
            continue
        mutual = [other for other in others if reach.is_lost(other) and port in elsewhere(reach, other)]
        if len(others) == 1 and mutual:  # two nodes: nobody can say whose cables are wrong
            pair = frozenset((port, mutual[0]))
            if pair not in told:
                told.add(pair)
                text = (
                    f"{reach.name(port)} and {reach.name(mutual[0])} reach each other, and nobody of their own rails:"
                )
                text += " a cable leads to another rail's switch"
                yield Finding("rails_crossed", text, "error", (port[0], mutual[0][0])), (port, mutual[0])
            continue
        yield _one(reach, port, others), (port,)


def elsewhere(reach: Reach, port: Port) -> list[Port]:
    """The interfaces of other rails that it reaches by its cable, those of the rail with most of them."""
    by_rail: dict[int, list[Port]] = defaultdict(list)
    for row in reach.searched(port):
        other = (row.node_id, row.interface)
        if reach.rail(other) != reach.rail(port):
            by_rail[reach.rail(other)].append(other)
    return max(by_rail.values(), key=len, default=[])


def _one(reach: Reach, port: Port, others: Sequence[Port]) -> Finding:
    text = (
        f"{reach.name(port)} reaches nobody on its own rail, but {listed(map(reach.name, others))}:"
        " its cable leads to that rail's switch"
    )
    return Finding("rails_crossed", text, "error", (port[0],))
