"""Which of a machine's interfaces may carry traffic between ranks, as far as the kernel tells. Values only."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence

from elaunch.topology.probe.netlink import Link

# Software that leads to no wire, or to one that another interface stands for.
_NO_WIRE = frozenset(
    ("bridge", "dummy", "tun", "wireguard", "ipip", "sit", "gre", "ip6gre", "ip6tnl", "vxlan", "geneve", "ifb", "vrf")
)


def candidates(links: Sequence[Link], address: str = "", exclude: Collection[str] = ()) -> tuple[Link, ...]:
    """Those that are up, lead somewhere and have an address, in the kernel's order.

    The interface of ``address``, at which the other nodes reach this one, counts whatever it is made of; ``exclude``
    are names that an operator leaves out.
    """
    return tuple(link for link in links if link.name not in exclude and _is_one(link, address))


def _is_one(link: Link, address: str) -> bool:
    if not (link.up and link.carrier) or link.loopback or link.master:
        return False
    own = any(known.partition("/")[0] == address for known in link.addresses)
    return own or (link.kind not in _NO_WIRE and any(_leads_on(link, known) for known in link.addresses))


def _leads_on(link: Link, address: str) -> bool:
    """Not 169.254.0.0/16, which is a server's way to its own management controller, nor a container's end of a veth."""
    own = ipaddress.ip_interface(address)
    return not own.ip.is_link_local and not (link.kind == "veth" and own.network.num_addresses == 1)
