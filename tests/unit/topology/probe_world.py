"""A network as values: hosts whose interfaces are plugged into switches, and what a probe over them would report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from elaunch.topology.probe.facts import Interface, NodeFacts, Report, Row, Target
from elaunch.topology.probe.findings import Verdict, findings
from elaunch.topology.probe.rounds import targets


def nodes(count: int, rails: int = 2, mtu: int = 9000) -> list[NodeFacts]:
    """Hosts ``h1``... with ids ``n1``..., an interface ``nicR`` in the subnet ``10.0.R.0/24`` on each rail."""
    return [
        NodeFacts(f"n{n}", f"h{n}", tuple(_interface(n, rail, mtu) for rail in range(rails)))
        for n in range(1, count + 1)
    ]


def _interface(number: int, rail: int, mtu: int) -> Interface:
    address = f"10.0.{rail}.{number}/24"
    return Interface(f"nic{rail}", (address,), f"fe80::{rail + 1}:{number}", mtu, port=1000)


@dataclass
class World:
    """``plugged`` are the switches of interfaces that are not in that of their number, None: in none.

    ``cut`` are pairs of nodes between which nothing passes, ``sizes`` what an interface's cable takes, ``wrong`` what
    else is to become of a row.
    """

    nodes: list[NodeFacts]
    plugged: dict[tuple[str, str], int | None] = field(default_factory=dict)
    cut: set[frozenset[str]] = field(default_factory=set)
    sizes: dict[tuple[str, str], int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    wrong: Callable[[str, Row], Row] = lambda node_id, row: row
    udp: bool = True

    def verdict(self) -> Verdict:
        asked = targets(self.nodes)
        reports = {n.node_id: self._report(n, asked[n.node_id]) for n in self.nodes if n.node_id not in self.silent}
        return findings(self.nodes, reports)

    def codes(self) -> list[str]:
        return [finding.code for finding in self.verdict().findings]

    def _report(self, node: NodeFacts, asked: tuple[Target, ...]) -> Report:
        direct = [self._row(node.node_id, target.own, target) for target in asked if target.own]
        lost = {row.own for row in direct} - {row.own for row in direct if row.reached}
        search = [self._row(node.node_id, own, target) for own in lost for target in asked if not target.own]
        return Report("p", (*direct, *(replace(row, search=True) for row in search if row.reached)))

    def _row(self, node_id: str, own: str, target: Target) -> Row:
        here, there = self._switch(node_id, own), self._switch(target.node_id, target.interface)
        apart = frozenset((node_id, target.node_id)) in self.cut
        reached = here is not None and here == there and not apart and self.udp
        row = Row(node_id=target.node_id, own=own, interface=target.interface, reached=reached)
        if reached:
            least = min(self.sizes.get(end, 1 << 16) for end in ((node_id, own), (target.node_id, target.interface)))
            whole = target.mtu <= least if target.mtu else None
            row = replace(row, arrived=target.interface, egress=own, whole=whole)
        return self.wrong(node_id, row)

    def _switch(self, node_id: str, name: str) -> int | None:
        return self.plugged.get((node_id, name), int(name[3:]))
