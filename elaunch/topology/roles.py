"""What each port is for, so far as the machine shows it: compute, management, storage, or nothing of hardware at all.

A port's state plays no part: a compute port that is down is still one, so that rails and choices stay as they are when
a link comes and goes (a port that is down counts with the rate of its like that are up). ``usable`` says which of them
can be used now.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from elaunch.topology.compute_ports import far, other_link_layer, slower_model
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import listed, ordered
from elaunch.topology.role import Decision, PortRole, Role, is_fabric

_WIRELESS = re.compile(r"wl[a-z0-9]|wlan|wwan")
_USB = re.compile(r"en[xp].*u[0-9]|enx[0-9a-f]{12}$|usb[0-9]")
_USB_DRIVERS = ("cdc_ether", "cdc_ncm", "cdc_eem", "rndis_host")
_BOND = re.compile(r"(^|_)(bond|team)_?[0-9]*$")
_WIRELESS_CLASS = 0x0280


def roles(topology: Topology) -> tuple[PortRole, ...]:
    """The role of every port, in the order of PCI addresses."""
    decided: dict[str, Decision] = {}
    candidates = list(ordered(topology.ports))
    for step in _STEPS:
        found = step(topology, candidates)
        decided.update(found)
        candidates = [p for p in candidates if p.id not in found]
    for port in candidates:
        decided[port.id] = Role.COMPUTE, "compute", f"{port.id} is a compute port"
    return tuple(PortRole(p, *decided[p.id]) for p in ordered(topology.ports))


def _software(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    text = "{} is of software: there is no hardware behind it"
    return {p.id: (Role.SOFTWARE, "software", text.format(p.id)) for p in ports if p.software}


def _not_for_clusters(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    functions = {f.address: f for f in topology.functions}
    found: dict[str, Decision] = {}
    for port in ports:
        function = functions.get(port.pci)
        if (function and function.class_code == _WIRELESS_CLASS) or (not port.rdma and _WIRELESS.match(port.nic)):
            found[port.id] = Role.MANAGEMENT, "wireless", f"{port.id} is wireless"
        elif not port.rdma and (_USB.match(port.nic) or port.driver in _USB_DRIVERS):
            found[port.id] = Role.MANAGEMENT, "usb", f"{port.id} hangs on USB, as a management controller's does"
    return found


def _same_wire(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """A virtual function beside its physical one, for containers, and a VLAN beside an interface that has addresses."""
    functions = {f.address: f for f in topology.functions}
    physical = {p.pci: p for p in ports if p.pci and not p.virtual_function}
    names = {i: p for p in ports for i in (p.nic, *p.interfaces)}
    found: dict[str, Decision] = {}
    for port in ports:
        function, below = functions.get(port.pci), names.get(port.nic.rpartition(".")[0])
        holder = physical.get(function.physical) if function and function.physical else None
        if holder is not None:
            text = f"{port.id} is a virtual function of {holder.id}: the same wire"
            found[port.id] = Role.MANAGEMENT, "virtual_function", text
        elif below is not None and not port.rdma and below.addresses != ():
            found[port.id] = Role.MANAGEMENT, "vlan", f"{port.id} is a VLAN on {below.id}: the same wire"
    return found


def _sockets_only(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    fabric = [p.id for p in ports if is_fabric(p)]
    if not fabric:
        return {}
    text = "{} has no RDMA, and {} {}"
    verb = "has" if len(fabric) == 1 else "have"
    return {
        p.id: (Role.MANAGEMENT, "no_rdma", text.format(p.id, listed(fabric, 4), verb))
        for p in ports
        if not is_fabric(p)
    }


def _bonds(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """Bonded fabric ports serve front end and storage where at least as many plain ones are there; a member is never
    used alone. Where bonds are more, they are what the machine was built for."""
    found: dict[str, Decision] = {}
    plain = [p for p in ports if not _is_bond(p) and not p.bond]
    bonded = {p.bond or p.id for p in ports if _is_bond(p) and is_fabric(p)}
    for port in ports:
        if _is_bond(port):
            if plain and is_fabric(port) and len(bonded) <= len(plain):
                text = f"{port.id} is a bond, and {len(plain)} ports are not: front end or storage by all signs"
                found[port.id] = Role.MANAGEMENT, "bond", text
        elif port.bond:
            text = f"{port.id} is a member of {port.bond}: only the bond as a whole carries traffic"
            found[port.id] = Role.MANAGEMENT, "bond_member", text
    return found


def _is_bond(port: Port) -> bool:
    """Also an RDMA device whose interface is in a bond: its addresses are the bond's."""
    return bool(port.members) or (port.rdma and bool(port.bond)) or bool(_BOND.search(port.nic))


_STEPS: tuple[Callable[[Topology, list[Port]], dict[str, Decision]], ...] = (
    _software,
    _not_for_clusters,
    _same_wire,
    _sockets_only,
    _bonds,
    far,
    other_link_layer,
    slower_model,
)
