"""MTUs that differ within a rail, and ways that take less than the interfaces at their ends. Values only."""

from __future__ import annotations

from collections import Counter, defaultdict

from elaunch.topology.probe.facts import Finding
from elaunch.topology.probe.reach import Port, Reach, listed


def mtu_findings(reach: Reach) -> list[Finding]:
    return [*_told(reach), *_found(reach)]


def _told(reach: Reach) -> list[Finding]:
    """Interfaces whose MTU is not that of most on their rail."""
    found = []
    for rail in sorted(set(reach.rails.values())):
        members = [port for port in reach.ports if reach.rail(port) == rail]
        sizes = Counter(reach.interfaces[port].mtu for port in members)
        if len(sizes) < 2:
            continue
        usual = max(sizes, key=lambda mtu: (sizes[mtu], mtu))
        odd = [port for port in members if reach.interfaces[port].mtu != usual]
        each = listed(f"{reach.name(port)} has {reach.interfaces[port].mtu}" for port in odd)
        rest = listed(reach.name(port) for port in members if port not in odd)
        text = f"the MTUs of one rail differ: {each}, {rest} {usual}"
        found.append(Finding("mtu_differs", text, "warning", tuple(dict.fromkeys(port[0] for port in odd))))
    return found


def _found(reach: Reach) -> list[Finding]:
    """Ways on which a datagram of the interfaces' own MTU is lost, told of the end that they have in common."""
    small: dict[Port, dict[Port, int]] = defaultdict(dict)
    whole: set[Port] = set()
    for node_id, row in reach.direct:
        here, there = (node_id, row.own), (row.node_id, row.interface)
        if row.whole is False:
            small[here][there] = small[there][here] = row.path_mtu
        elif row.whole:
            whole |= {here, there}
    found, told = [], set[Port]()
    ends = sorted(small, key=lambda port: (port in whole, -len(small[port])))
    for port in ends:
        others = sorted((other for other in small[port] if other not in told), key=reach.ports.index)
        if not others:
            continue
        told.add(port)
        sizes = [size for size in small[port].values() if size]
        known = f"; the way takes {min(sizes)}" if sizes else ""
        mtu = min(reach.interfaces[end].mtu for end in (port, *others))
        text = f"datagrams of {mtu} bytes are lost between {reach.name(port)} and {listed(map(reach.name, others))},"
        text += f" which have that MTU{known}: something between them has a smaller one"
        found.append(Finding("mtu_differs", text, "warning", (port[0],)))
    return found
