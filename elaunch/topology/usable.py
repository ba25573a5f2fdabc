"""Which compute ports can be used now, and why each of the others cannot."""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.topology.binding import Refused, Wishes
from elaunch.topology.machine import LinkLayer, Port, PortState
from elaunch.topology.naming import names


def refusal(port: Port, wishes: Wishes, *, by_ip: bool = False) -> Refused | None:
    """Why ``port`` cannot be used, None: it can. ``by_ip``: RoCE has IP addresses here."""
    if not set(wishes.exclude).isdisjoint(names(port)):
        return Refused(port, "excluded", f"{port.id} is excluded (--exclude-nic)")
    for code, pairs in (("degraded", wishes.avoid), ("unreachable", wishes.unreachable)):
        for name, reason in pairs:
            if name in names(port):
                return Refused(port, code, f"{port.id} is left out: {reason}")
    return _by_state(port) or _by_address(port, by_ip)


def _by_state(port: Port) -> Refused | None:
    if port.state is PortState.INIT:
        text = f"{port.id} has a link that no subnet manager has configured (INIT): is one running?"
        return Refused(port, "init", text)
    if port.state is not PortState.DOWN:
        return None
    if port.virtual_function:
        return Refused(port, "down_virtual", f"{port.id} is a virtual function that is down, which is normal")
    word = port.phys_state.lower()
    if "polling" in word:
        return Refused(port, "down", f"{port.id} is down (Polling): no cable, or its far end is down")
    if "disabled" in word:
        return Refused(port, "down", f"{port.id} is down (Disabled): switched off on this host")
    return Refused(port, "down", f"{port.id} is down" + (f" ({port.phys_state})" if word else ""))


def routed(ports: Iterable[Port]) -> bool:
    """Whether one of the RoCE ports has an IP address that is more than link-local."""
    roce = (port for port in ports if port.rdma and port.link_layer is LinkLayer.ETHERNET)
    return any(_routable(address) for port in roce for address in port.addresses or ())


def _by_address(port: Port, by_ip: bool) -> Refused | None:
    """RoCE and sockets need an IP address; InfiniBand and EFA do not. Where addresses are not known, none is missed."""
    if port.addresses is None or any(_routable(a) for a in port.addresses):
        return None
    if port.rdma and port.link_layer is not LinkLayer.ETHERNET:
        return None
    if port.rdma and port.addresses and not by_ip:
        return None  # a link-local address gives RoCE a GID, which is enough on one subnet, and for its like
    where = f" ({', '.join(port.interfaces)})" if port.interfaces and port.interfaces != (port.nic,) else ""
    text = f"{port.id}{where} has no IP address" + (" but link-local ones" if port.addresses else "")
    return Refused(port, "no_address", text)


def _routable(address: str) -> bool:
    return not address.lower().startswith(("fe80:", "169.254.", "127.")) and address != "::1"
