"""What the leader makes of the ports that agents tell of: each trouble once when it begins, and once when it is over.

No clock in here: ``now`` is the leader's monotonic clock, ``wall`` its wall clock, for what the next leader is to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from elaunch.controller.findings import Finding, recovered
from elaunch.controller.node_ports import NodePorts
from elaunch.controller.rails import below_peers
from elaunch.links import PortReport
from elaunch.progress import Heartbeat
from elaunch.rendezvous.memory import LinkFault
from elaunch.rendezvous.plan import Member

REST = 600.0  # seconds for which a port must be well before a generation uses it again
MOST_FAULTS = 64  # that are remembered, the newest


class Links:
    """The ports of all nodes of a job. Nodes stay known from one generation to the next."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodePorts] = {}
        self._changed: set[str] = set()
        self._rates_changed = False
        self._faults: dict[tuple[str, str], LinkFault] = {}
        self._told: set[tuple[str, str, str]] = set()  # by the leader before

    def recall(self, faults: tuple[LinkFault, ...]) -> None:
        """Begin with what the leader before has handed on."""
        self._faults = {(fault.host, fault.port): fault for fault in faults}
        self._told = {(fault.host, fault.port, fault.code) for fault in faults if not fault.well}

    def follow(self, members: Iterable[Member], present: Iterable[str]) -> None:
        """The job has these members now; of nodes that are not ``present`` nothing is known any more."""
        for node_id in self._nodes.keys() - set(present):
            del self._nodes[node_id]
            self._changed.discard(node_id)
            self._rates_changed = True
        for member in members:
            node = self._nodes.setdefault(member.node_id, NodePorts(member.node_id, member.host, member.rank0))
            node.rank0 = member.rank0

    def hear(self, beat: Heartbeat) -> None:
        """What a node's heartbeat says of its ports. Of thousands a second most say nothing."""
        node = self._nodes.get(beat.node_id)
        if node is None:
            return
        if beat.all_ports:
            before, node.ports = node.rates, {report.port: report for report in beat.ports}
            self._rates_changed |= before != node.rates
        if beat.ports or node.told:
            told = {(r.port, t.code): (t.text, node.ranks(r)) for r in beat.ports for t in r.troubles}
            if told != node.told:
                node.told = told
                self._changed.add(beat.node_id)

    def changes(self, now: float, wall: float) -> tuple[Finding, ...]:
        """What has begun or is over since the last time."""
        if self._rates_changed:
            self._compare()
        found = [finding for node_id in sorted(self._changed) for finding in self._nodes[node_id].settle(now)]
        self._changed.clear()
        news = [finding for finding in found if not self._has_told(finding)]
        for finding in news:
            if finding.broken and not finding.over:
                fault = LinkFault(finding.host, finding.port, finding.code, finding.trouble, wall)
                self._faults[fault.host, fault.port] = fault
        for fault in sorted(self._faults.values(), key=_begun)[:-MOST_FAULTS]:
            del self._faults[fault.host, fault.port]
        return (*news, *self._forgiven(now, wall))

    def _has_told(self, finding: Finding) -> bool:
        """Whether this is what the leader before has told already."""
        key = finding.host, finding.port, finding.code
        if key not in self._told:
            return False
        self._told.discard(key)
        return not finding.over

    def reports(self, most: int) -> Iterator[tuple[NodePorts, PortReport]]:
        """The ports as their nodes last told of all of them, ``most`` at most."""
        found = ((node, report) for node in self._nodes.values() for report in node.ports.values())
        return islice(found, most)

    @property
    def open(self) -> tuple[Finding, ...]:
        """All that is in trouble now, the worst first."""
        found = (finding for node in self._nodes.values() for finding in node.open.values())
        return tuple(sorted(found, key=lambda finding: finding.weight))

    @property
    def faults(self) -> tuple[LinkFault, ...]:
        """Ports that are better not used for now, in the order in which their trouble began."""
        return tuple(sorted(self._faults.values(), key=_begun))

    @property
    def resting(self) -> tuple[LinkFault, ...]:
        """Ports that are well again, and not in use."""
        used = {
            (node.host, port.port) for node in self._nodes.values() for port in node.ports.values() if port.local_ranks
        }
        return tuple(fault for fault in self.faults if fault.well and (fault.host, fault.port) not in used)

    def about(self, node_id: str, rank: int) -> str:
        """What is to be said of the ports of one rank, as the end of a sentence; "" where they are well."""
        node = self._nodes.get(node_id)
        found = sorted((f for f in node.open.values() if rank in f.ranks), key=lambda f: f.weight) if node else []
        return "".join(f"; its port {finding.port} {finding.trouble}" for finding in found[:2])

    def anywhere(self) -> str:
        """What is to be said where no rank is to blame: the worst of the ports in use."""
        found = [finding for finding in self.open if finding.broken and finding.ranks]
        more = f"; {len(found) - 2} more ports are in trouble" if len(found) > 2 else ""
        return "".join(f"; {finding.text}" for finding in found[:2]) + more

    def _compare(self) -> None:
        self._rates_changed = False
        slow = below_peers({node_id: node.rates for node_id, node in self._nodes.items()})
        for node_id, node in self._nodes.items():
            below = slow.get(node_id, {})
            if below != node.below:
                node.below = below
                self._changed.add(node_id)

    def _forgiven(self, now: float, wall: float) -> Iterator[Finding]:
        """A port that is heard to be well begins its rest; one that has had it may be used again.

        What the leader before told of, and is over by now, is told here.
        """
        if not self._faults:
            return
        here = {fault.host for fault in self._faults.values()}
        by_host: dict[str, list[NodePorts]] = {host: [] for host in here}
        for node in self._nodes.values():
            if node.host in here:
                by_host[node.host].append(node)
        for key, fault in [*self._faults.items()]:
            nodes = by_host[fault.host]
            if any(node.suffers(fault.port) for node in nodes):
                continue
            heard = [node for node in nodes if node.knows(fault.port)]
            if heard and not fault.well:
                self._faults[key] = replace(fault, well=wall)
                if (*key, fault.code) in self._told:
                    self._told.discard((*key, fault.code))
                    yield _over(fault, heard[0], now, wall)
            elif fault.well and wall - fault.well >= REST:
                del self._faults[key]


def _begun(fault: LinkFault) -> tuple[float, str, str]:
    return fault.since, fault.host, fault.port


def _over(fault: LinkFault, node: NodePorts, now: float, wall: float) -> Finding:
    text = recovered(fault.code, max(0.0, wall - fault.since))
    ranks = node.ranks(node.ports[fault.port])
    return Finding(fault.code, fault.host, node.node_id, fault.port, ranks, text, now, broken=True, over=True)
