"""Which network interfaces are used by what goes over sockets: bootstraps, and collectives where there is no RDMA."""

from __future__ import annotations

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import PortState
from elaunch.topology.render.ground import Ground, listed, ports_of
from elaunch.topology.render.names import Names, differs, interfaces, stays


def chosen(node: NodeBinding, rank: RankBinding, ground: Ground) -> tuple[str, ...]:
    """In order; empty where the libraries may choose.

    With RDMA the sockets carry bootstraps only: over the interface at which the agent is reached. Without, they carry
    the collectives, over the interfaces that the policy has chosen, the agent's own first: Gloo gets only that one, and
    of it alone is known that others reach it.
    """
    ports = listed(node, rank)
    if any(port.rdma for port in ports):
        return (ground.own,) if ground.own else ()
    names = dict.fromkeys(port.nic for port in ports)
    return tuple(sorted(names, key=lambda name: name != ground.own))


def conflict(variable: str, text: str, names: Names, would_be: str, node: NodeBinding) -> str:
    """What is to be said of interfaces that the user has set; "" where they come to the same.

    Libraries pass over what is down: that is told where an entry is about nothing else. An interface of another kind
    than those that are known here (a VLAN, say) is the user's business.
    """
    there = {name: port.state for port in ports_of(node) for name in interfaces(port)}
    wanted = {name for name, _ in Names.parse(would_be if would_be.startswith("=") else "=" + would_be).entries}
    up = {name for name, state in there.items() if state is not PortState.DOWN} | wanted
    dead = set(names.strangers((name, None) for name in up)) - set(names.strangers((name, None) for name in there))
    if dead and not names.leaves_out:
        return f"{stays(variable, text)}: {min(dead)} is down"
    taken = {name for name in up if names.takes(name)}
    unknown = not names.leaves_out and names.strangers((name, None) for name in there.keys() | wanted)
    return "" if taken == wanted or unknown else differs(variable, text, would_be)
