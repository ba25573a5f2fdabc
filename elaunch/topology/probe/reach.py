"""Who reached whom, out of all nodes' reports. Values only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from elaunch.topology.probe.facts import Interface, NodeFacts, Report, Row

SHOWN = 8  # names in one sentence

Port = tuple[str, str]
"""A node's id and the name of its interface."""


def listed(names: Iterable[str]) -> str:
    """``a, b and 5 more``."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


class Reach:
    """``direct`` are the questions within a rail, with the node that asked. An answer proves both directions."""

    def __init__(self, nodes: Sequence[NodeFacts], reports: Mapping[str, Report], rails: Mapping[Port, int]) -> None:
        self.rails = rails
        self._hosts = {node.node_id: node.host for node in nodes}
        self._ambiguous = {host for host, times in Counter(self._hosts.values()).items() if times > 1}
        self.ports: list[Port] = [(node.node_id, interface.name) for node in nodes for interface in node.interfaces]
        self._places = {port: place for place, port in enumerate(self.ports)}
        self.interfaces: dict[Port, Interface] = {(n.node_id, i.name): i for n in nodes for i in n.interfaces}
        self.direct: list[tuple[str, Row]] = []
        self._searched: dict[Port, list[Row]] = defaultdict(list)
        self._peers: dict[Port, dict[Port, bool]] = defaultdict(dict)
        for node_id, report in reports.items():
            for row in report.rows:
                self._take(node_id, row)

    def _take(self, node_id: str, row: Row) -> None:
        here, there = (node_id, row.own), (row.node_id, row.interface)
        if here not in self.interfaces or there not in self.interfaces:
            return
        if row.search:
            self._searched[here].append(row)
            return
        self.direct.append((node_id, row))
        met = row.reached or self._peers[here].get(there, False)
        self._peers[here][there] = self._peers[there][here] = met

    @property
    def asked(self) -> bool:
        return bool(self.direct)

    @property
    def any_answered(self) -> bool:
        return any(row.reached for _, row in self.direct) or any(self._searched.values())

    @property
    def pairs(self) -> list[tuple[Port, Port]]:
        """Each two interfaces of which one asked the other, once."""
        return [(a, b) for a, others in self._peers.items() for b in others if a < b]

    def peers(self, port: Port) -> list[Port]:
        """The interfaces of its rail that were asked from here, or asked this one, in the order of the nodes."""
        return sorted(self._peers.get(port, {}), key=self._places.__getitem__)

    def meet(self, one: Port, other: Port) -> bool:
        return self._peers[one][other]

    def is_lost(self, port: Port) -> bool:
        """It was to meet others, and met none."""
        peers = self._peers.get(port, {})
        return bool(peers) and not any(peers.values())

    @property
    def answered(self) -> set[str]:
        """The nodes of which an interface reaches another node's of its rail."""
        return {port[0] for port, peers in self._peers.items() if any(peers.values())}

    def searched(self, port: Port) -> list[Row]:
        """What was found along its cable."""
        return self._searched.get(port, [])

    def rail(self, port: Port) -> int:
        return self.rails[port]

    def name(self, port: Port) -> str:
        """``nic0 of host-a``."""
        host = self._hosts[port[0]]
        return f"{port[1]} of {host}{f' ({port[0]})' if host in self._ambiguous else ''}"
