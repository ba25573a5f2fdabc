"""What nodes tell of their interfaces, what they are asked to probe, and what came of it. Values only."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of a node that may carry traffic between ranks.

    ``addresses`` have their prefix lengths (``10.0.1.7/24``); ``link_local`` is its IPv6 address on the wire, "" where
    it has none. ``mtu`` in bytes. ``port`` is the UDP port at which the node answers there, 0 where it does not.
    ``rail`` is -1 where the node does not know it.
    """

    name: str
    addresses: tuple[str, ...] = ()
    link_local: str = ""
    mtu: int = 0
    port: int = 0
    rail: int = -1

    @property
    def address(self) -> str:
        """The address that peers send to, without its prefix length; "" where it has none."""
        return next((address.partition("/")[0] for address in self.addresses), self.link_local)

    def address_for(self, other: Interface) -> str:
        """The address at which ``other`` would reach this one: of a family that both have."""
        families = {_version(address) for address in other.addresses}
        meeting = (a.partition("/")[0] for a in self.addresses if _version(a) in families)
        return next(meeting, self.link_local if other.link_local else self.address)

    @property
    def networks(self) -> tuple[str, ...]:
        """The subnets of its addresses; a single host's is none."""
        nets = (ipaddress.ip_interface(address).network for address in self.addresses)
        return tuple(dict.fromkeys(str(net) for net in nets if net.num_addresses > 1))


def _version(address: str) -> int:
    return 6 if ":" in address else 4


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node: ``map_digest`` stands for its devices and ports and how they hang together, "" where not known."""

    node_id: str
    host: str
    interfaces: tuple[Interface, ...] = ()
    map_digest: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """One question of a node: from its interface ``own`` to ``interface`` of a peer.

    ``own`` is "" for what is asked only from interfaces that reach nobody: where else their cable might lead.
    ``round`` is its turn.
    """

    own: str
    node_id: str
    interface: str
    address: str
    port: int
    mtu: int
    round: int = 0

    @property
    def link_local(self) -> bool:
        """The address means nothing without the interface that it is sent from."""
        return ipaddress.ip_address(self.address).is_link_local


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one question.

    ``arrived`` is the peer's interface at which it came in, ``egress`` the own one by which ordinary traffic of that
    source and destination leaves ("" where the routing table does not say). ``whole``: a datagram as large as both MTUs
    allow came through as well, None where that was not asked. ``path_mtu`` in bytes, 0 where nothing told it.
    ``search``: the question was asked only because nobody on ``own``'s rail had answered.
    """

    own: str
    node_id: str
    interface: str
    reached: bool
    arrived: str = ""
    egress: str = ""
    whole: bool | None = None
    path_mtu: int = 0
    search: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """All that a node found in the probe ``id``; ``error`` where it could not probe."""

    id: str
    rows: tuple[Row, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class PortNote:
    """An interface that is not to be used, and why."""

    interface: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know: ``code`` for machines, ``text`` a sentence, ``nodes`` those it is about.

    ``severity`` is error, warning or info.
    """

    code: str
    text: str
    severity: str = "warning"
    nodes: tuple[str, ...] = ()


def several_ways(nodes: Sequence[NodeFacts]) -> bool:
    """Whether there is anything to be found out: two hosts, and one with more than one interface."""
    places = {frozenset(interface.address for interface in node.interfaces) for node in nodes}
    return len(places) > 1 and any(len(node.interfaces) > 1 for node in nodes)
