"""What the answers of all nodes say, taken together: findings, and the interfaces that are not to be used. Values only.

A node is only told not to use an interface where another one of its own was answered: where no datagram gets through
at all, a firewall against UDP is as likely as a cable, and the job must not stand still for want of a port.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from elaunch.topology.probe.crossing import crossed
from elaunch.topology.probe.facts import Finding, NodeFacts, PortNote, Report
from elaunch.topology.probe.reach import Port, Reach, listed
from elaunch.topology.probe.rounds import rails_of
from elaunch.topology.probe.sizes import mtu_findings

PAIRS_SHOWN = 4  # of interfaces that do not reach each other


@dataclass(frozen=True, slots=True)
class Verdict:
    """``unreachable`` are, by node, the interfaces that reach nobody."""

    findings: tuple[Finding, ...] = ()
    unreachable: Mapping[str, tuple[PortNote, ...]] = field(default_factory=dict)


def findings(nodes: Sequence[NodeFacts], reports: Mapping[str, Report]) -> Verdict:
    """``reports`` by node id; a node of which there is none has not answered."""
    rails = rails_of(nodes)
    reach = Reach(nodes, reports, rails)
    told = {node_id for node_id, row in reach.direct if row.egress}
    known = [*_subnets(nodes, told), *_maps(nodes)]
    if not reach.asked:
        return Verdict(tuple(known))
    if not reach.any_answered:
        return Verdict((*known, _nothing(nodes)))
    lost = [port for port in reach.ports if reach.is_lost(port)]
    unreached, notes = _lost(reach, lost)
    found = [*unreached, *_pairs(reach, set(lost)), *mtu_findings(reach), *_wrong_way(reach), *known]
    found += _silent(nodes, reports)
    return Verdict(tuple(found), _notes(reach, notes))


def _nothing(nodes: Sequence[NodeFacts]) -> Finding:
    text = (
        f"no interface of {listed(node.host for node in nodes)} was answered by any other over UDP, though the nodes"
        " reach each other over TCP: a firewall may drop it, so that nothing is known of their interfaces"
    )
    return Finding("probe_unanswered", text, "info", tuple(node.node_id for node in nodes))


def _lost(reach: Reach, lost: Sequence[Port]) -> tuple[list[Finding], dict[Port, str]]:
    """What is said of interfaces that reach nobody, together where that is a whole rail."""
    found: list[Finding] = []
    notes: dict[Port, str] = {}
    told: set[Port] = set()
    for finding, ports in crossed(reach, lost):
        found.append(finding)
        told.update(ports)
        notes.update({port: finding.text for port in ports if port in lost})
    for rail in sorted({reach.rail(port) for port in lost}):
        members = [port for port in reach.ports if reach.rail(port) == rail and reach.peers(port)]
        here = [port for port in lost if reach.rail(port) == rail and port not in told]
        if here and len(here) == len(members) and not told & set(members):
            text = (
                f"no two of {listed(map(reach.name, here))} reach each other, though they are up: a switch, a VLAN or a"
            )
            text += " firewall may be between them"
            found.append(Finding("interface_unreachable", text, "error", _nodes(here)))
            notes.update(dict.fromkeys(here, text))
            continue
        for port in here:
            text = (
                f"{reach.name(port)} is up, but reaches none of {listed(map(reach.name, reach.peers(port)))}"
                f"{_on_the_wire(reach, port)}"
            )
            notes[port] = text
            if not told.issuperset(reach.peers(port)):  # else those are why
                found.append(Finding("interface_unreachable", text, "error", _nodes([port])))
    return found, notes


def _on_the_wire(reach: Reach, port: Port) -> str:
    """What tells a wrong address from a dead cable."""
    near = [row for row in reach.searched(port) if reach.rails.get((row.node_id, row.interface)) == reach.rail(port)]
    if not near:
        return ""
    who = reach.name((near[0].node_id, near[0].interface))
    return f"; on the same wire as {who} all the same, so that its address or subnet is wrong"


def _pairs(reach: Reach, lost: set[Port]) -> list[Finding]:
    """Interfaces that others reach, and that do not reach each other."""
    apart = [(a, b) for a, b in reach.pairs if not reach.meet(a, b) and a not in lost and b not in lost]
    if not apart:
        return []
    pairs = [f"{reach.name(a)} and {reach.name(b)}" for a, b in apart]
    more = f", and {len(pairs) - PAIRS_SHOWN} more such pairs" if len(pairs) > PAIRS_SHOWN else ""
    text = f"{', '.join(pairs[:PAIRS_SHOWN])} do not reach each other{more}, though each of them reaches others"
    return [Finding("pair_unreachable", text, "error", _nodes(port for pair in apart for port in pair))]


def _wrong_way(reach: Reach) -> list[Finding]:
    """Interfaces whose traffic goes out or comes in at another one of their host; alike hosts in one line."""
    out: dict[Port, set[str]] = defaultdict(set)
    into: dict[Port, set[str]] = defaultdict(set)
    for node_id, row in reach.direct:
        if row.egress and row.egress != row.own:
            out[node_id, row.own].add(row.egress)
        if row.reached and row.arrived and row.arrived != row.interface:
            into[row.node_id, row.interface].add(row.arrived)
    found = []
    for names, others, nodes in _alike(reach, out):
        text = f"what {names} sends from its own address leaves by {others}: a duplicate route; two interfaces in one"
        found.append(_duplicate(f"{text} subnet need a routing rule for each source address", nodes))
    for names, others, nodes in _alike(reach, into):
        text = f"what is sent to the address of {names} comes in by {others}: the host answers for any of its addresses"
        found.append(
            _duplicate(f"{text} on every interface (set net.ipv4.conf.all.arp_ignore=1 and arp_announce=2)", nodes)
        )
    return found


def _alike(reach: Reach, ways: Mapping[Port, set[str]]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The interfaces of one name that have the same others, in words, and their nodes."""
    same: dict[tuple[str, tuple[str, ...]], list[Port]] = defaultdict(list)
    for port, others in ways.items():
        same[port[1], tuple(sorted(others))].append(port)
    for (_, names), ports in same.items():
        yield listed(map(reach.name, ports)), listed(names), _nodes(ports)


def _duplicate(text: str, nodes: tuple[str, ...]) -> Finding:
    return Finding("duplicate_route", text, "warning", nodes)


def _subnets(nodes: Sequence[NodeFacts], told: Collection[str]) -> list[Finding]:
    """Hosts with two interfaces in one subnet, of which nobody ``told`` by which of them their traffic leaves."""
    same: dict[tuple[str, ...], list[NodeFacts]] = defaultdict(list)
    for node in nodes:
        by_net: dict[str, list[str]] = defaultdict(list)
        for interface in node.interfaces if len(node.interfaces) > 1 and node.node_id not in told else ():
            for net in interface.networks:
                by_net[net].append(interface.name)
        for net, names in by_net.items():
            if len(names) > 1:
                same[(net, *names)].append(node)
    found = []
    for (net, *names), there in same.items():
        text = f"{listed(names)} of {listed(node.host for node in there)} are in one subnet, {net}: without a routing"
        text += " rule for each source address, all of it leaves by one of them"
        found.append(_duplicate(text, tuple(node.node_id for node in there)))
    return found


def _maps(nodes: Sequence[NodeFacts]) -> list[Finding]:
    """Hosts whose devices and ports hang together otherwise than those of most."""
    by_digest: dict[str, list[NodeFacts]] = defaultdict(list)
    for node in nodes:
        if node.map_digest:
            by_digest[node.map_digest].append(node)
    if len(by_digest) < 2:
        return []
    usual, *others = sorted(by_digest.values(), key=len, reverse=True)
    odd = [node for group in others for node in group]
    text = f"the map of devices and ports of {listed(n.host for n in odd)} differs from that of"
    text += f" {listed(n.host for n in usual)}: see `elaunch topo` on both"
    return [Finding("map_differs", text, "warning", tuple(node.node_id for node in odd))]


def _silent(nodes: Sequence[NodeFacts], reports: Mapping[str, Report]) -> list[Finding]:
    silent = [node for node in nodes if node.interfaces and node.node_id not in reports]
    if not silent:
        return []
    text = f"{listed(node.host for node in silent)} did not say in time what they found: they were only asked"
    return [Finding("probe_incomplete", text, "info", tuple(node.node_id for node in silent))]


def _notes(reach: Reach, notes: Mapping[Port, str]) -> dict[str, tuple[PortNote, ...]]:
    by_node: dict[str, list[PortNote]] = defaultdict(list)
    for port, text in notes.items():
        by_node[port[0]].append(PortNote(port[1], text))
    answered = reach.answered if by_node else set()
    return {node_id: tuple(of) for node_id, of in by_node.items() if node_id in answered}


def _nodes(ports: Iterable[Port]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node_id for node_id, _ in ports))
