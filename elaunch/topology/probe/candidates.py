"""Which of a machine's interfaces may carry traffic between ranks, as far as the kernel tells. Values only."""

from __future__ import annotations

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
    if not (link.up and link.carrier and link.addresses) or link.loopback or link.master:
        return False
    own = any(known.partition("/")[0] == address for known in link.addresses)
    return own or link.kind not in _NO_WIRE
