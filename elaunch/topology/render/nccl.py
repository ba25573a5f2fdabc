"""NCCL, and RCCL, which reads the same variables: which ports, which interfaces, whether rails are crossed.

From NCCL's documentation: ``NCCL_IB_HCA`` and ``NCCL_SOCKET_IFNAME`` are lists of prefixes, so that ``mlx5_1`` takes
``mlx5_10`` too, unless ``=`` stands before the list. A port is named only where its NIC has more than one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import LinkLayer, Port, Topology
from elaunch.topology.render import sockets
from elaunch.topology.render.ground import Ground, listed, ports_of
from elaunch.topology.render.names import Names, complaint, differs

HCA = "NCCL_IB_HCA"
SOCKETS = "NCCL_SOCKET_IFNAME"
CROSS_NIC = "NCCL_CROSS_NIC"
TOPOLOGY = "NCCL_TOPO_FILE"
DISABLED, NET = "NCCL_IB_DISABLE", "NCCL_NET"

_NO_VERBS = (LinkLayer.EFA, LinkLayer.SLINGSHOT)
"""What NCCL reaches through a plug-in of libfabric's, which has variables of its own."""


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    env: dict[str, str] = {}
    if ground.topology_file:
        env[TOPOLOGY] = ground.topology_file
    if found := verbs(listed(node, rank)):
        several = _several(ground.ports)
        env[HCA] = "=" + ",".join(port.id if port.nic in several else port.nic for port in found)
    if isolated(node):
        env[CROSS_NIC] = "0"
    if names := sockets.chosen(node, rank, ground):
        env[SOCKETS] = "=" + ",".join(names)
    return env


def conflict(variable: str, text: str, would_be: str, node: NodeBinding) -> str:
    """What is to be said of a value that the user has set; "" where it comes to the same."""
    if variable == HCA:
        ports, names = verbs(ports_of(node)), Names.parse(text)
        refused = [each for each in node.refused if each.port in ports]
        if said := complaint(variable, text, names, ports, refused):
            return said
        own = Names.parse(would_be)
        same = all(names.takes(p.nic, p.number) == own.takes(p.nic, p.number) for p in up(ports))
        return "" if same else differs(variable, text, would_be)
    if variable == SOCKETS:
        return sockets.conflict(variable, text, Names.parse(text), would_be, node)
    return differs(variable, text, would_be) if text != would_be else ""


def effective(node: NodeBinding, rank: RankBinding, ground: Ground) -> tuple[Port, ...]:
    """The ports that a rank will use: those listed for it, or what the user's own list takes."""
    ports = listed(node, rank)
    if not ports or HCA not in ground.user:
        return ports
    names = Names.parse(ground.user[HCA])
    taken = tuple(port for port in up(verbs(ground.ports)) if names.takes(port.nic, port.number))
    return taken or ports


def chosen_by_user(user: Mapping[str, str], ports: Sequence[Port]) -> str:
    """The user's own setting that leaves NCCL a way to other hosts, "" where there is none.

    One of sockets counts only where there is no RDMA port: it is often set for bootstraps alone.
    """
    if HCA in user:
        names = Names.parse(user[HCA])
        found = any(names.takes(port.nic, port.number) for port in up(verbs(ports)))
        return f"{HCA}={user[HCA]}" if found else ""
    if SOCKETS in user and not any(port.rdma for port in ports):
        names = Names.parse(user[SOCKETS])
        found = any(names.takes(port.nic) for port in up(ports))
        return f"{SOCKETS}={user[SOCKETS]}" if found else ""
    return ""


def sockets_only(user: Mapping[str, str]) -> str:
    """The user's own setting that keeps NCCL from RDMA, "" where there is none."""
    if user.get(NET, "").strip().lower() == "socket":
        return f"{NET}={user[NET]}"
    number = re.match(r"[ \t]*[+-]?0*[1-9]", user.get(DISABLED, ""))
    return f"{DISABLED}={user[DISABLED]}" if number else ""


def by_sockets(topology: Topology, user: Mapping[str, str]) -> Topology:
    """The machine as NCCL sees it where the user keeps it from RDMA: a port's interface is what is left of it."""
    if not sockets_only(user):
        return topology
    every = sockets_only(user).startswith(f"{NET}=")  # the other setting leaves plug-ins be
    dropped = [port for port in topology.ports if port.rdma] if every else verbs(topology.ports)
    there = {port.nic for port in topology.ports}
    left: dict[str, Port] = {}
    for port in topology.ports:
        if port not in dropped:
            left[port.id] = port
        elif port.interfaces and port.interfaces[0] not in there:
            left.setdefault(port.interfaces[0], _interface(port))
    return replace(topology, ports=tuple(left.values()))


def _interface(port: Port) -> Port:
    """The interface of a port, of a bond the bond itself."""
    name = port.interfaces[0]
    bond, members = ("", port.members) if name == port.bond else (port.bond, ())
    layer = port.link_layer if port.link_layer is LinkLayer.ETHERNET else LinkLayer.UNKNOWN  # no fabric beside others
    facts = replace(port, nic=name, number=1, rdma=False, interfaces=(name,), link_layer=layer)
    return replace(facts, bond=bond, members=members)


def verbs(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Those that NCCL drives itself: InfiniBand, RoCE, Omni-Path."""
    return tuple(port for port in ports if port.rdma and port.link_layer not in _NO_VERBS)


def up(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Those that NCCL does not pass over: it takes active ports only."""
    return tuple(port for port in ports if port.up)


def isolated(node: NodeBinding) -> bool:
    """Whether ranks are kept to rails, each to its own: no ring may then come in by one and go out by another."""
    rails = {rank.rail for rank in node.ranks if rank.rail is not None}
    lists = {frozenset(port.id for port in rank.ports) for rank in node.ranks if rank.ports}
    return not node.shared and len(rails) > 1 and len(lists) > 1


def _several(ports: Sequence[Port]) -> set[str]:
    """NICs of more than one port."""
    numbers: dict[str, set[int]] = {}
    for port in ports:
        numbers.setdefault(port.nic, set()).add(port.number)
    return {nic for nic, found in numbers.items() if len(found) > 1}
