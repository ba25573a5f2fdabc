"""What each port is for, so far as the machine shows it: compute, management, storage, or nothing of hardware at all.

A port's state plays no part: a compute port that is down is still one, so that rails and choices stay as they are when
a link comes and goes (a port that is down counts with the rate of its like that are up). ``usable`` says which of them
can be used now.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from elaunch.topology.distance import Distances
from elaunch.topology.level import Level
from elaunch.topology.machine import LinkLayer, PciFunction, Port, Topology
from elaunch.topology.naming import listed, ordered


class Role(str, enum.Enum):
    """What a port is for."""

    COMPUTE = "compute"
    MANAGEMENT = "management"
    STORAGE = "storage"
    SOFTWARE = "software"


@dataclass(frozen=True, slots=True)
class PortRole:
    """A port's role, with a code for machines and a sentence for people."""

    port: Port
    role: Role
    code: str
    text: str


_WIRELESS = re.compile(r"wl[a-z0-9]|wlan|wwan")
_USB = re.compile(r"en[xp].*u[0-9]|usb[0-9]|ib-?over")
_BOND = re.compile(r"(^|_)(bond|team)_?[0-9]*$")
_WIRELESS_CLASS = 0x0280

Decision = tuple[Role, str, str]


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


def is_fabric(port: Port) -> bool:
    """Whether ``port`` is reached by more than sockets: RDMA, or a fabric that has a library of its own."""
    return port.rdma or port.link_layer not in (LinkLayer.ETHERNET, LinkLayer.UNKNOWN)


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
        elif not port.rdma and _USB.match(port.nic):
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
    """Bonded fabric ports serve front end and storage where plain ones are there too; a member is never used alone."""
    found: dict[str, Decision] = {}
    plain = [p for p in ports if not _is_bond(p) and not p.bond]
    for port in ports:
        if _is_bond(port):
            if plain and is_fabric(port):
                text = f"{port.id} is a bond, and {len(plain)} ports are not: front end or storage by all signs"
                found[port.id] = Role.MANAGEMENT, "bond", text
        elif port.bond:
            text = f"{port.id} is a member of {port.bond}: only the bond as a whole carries traffic"
            found[port.id] = Role.MANAGEMENT, "bond_member", text
    return found


def _is_bond(port: Port) -> bool:
    """Also an RDMA device whose interface is in a bond: its addresses are the bond's."""
    return bool(port.members) or (port.rdma and bool(port.bond)) or bool(_BOND.search(port.nic))


def _far(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """Ports that no device has near, where others share a switch with one."""
    distances = Distances(topology)
    levels = {p.id: {d.id: distances.level(d, p) for d in topology.devices} for p in ports}
    near = [p for p in ports if any(way <= Level.PXB for way in levels[p.id].values())]
    if not near:
        return {}
    served = {d.id for d in topology.devices if any(levels[p.id][d.id] <= Level.PXB for p in near)}
    # A device whose own socket has no port on a switch still has the others of that socket.
    left = [d for d in topology.devices if d.id not in served]
    nodes = {d.numa for d in topology.devices if d.numa is not None}
    found: dict[str, Decision] = {}
    for port in ports:
        if port in near or any(levels[port.id][d.id] <= Level.NODE for d in left):
            continue
        best = min(levels[port.id].values())
        if port.numa is not None and nodes and port.numa not in nodes:
            text = (
                f"{port.id} is on NUMA node {port.numa}, where no device is; {len(near)} ports share a switch with one"
            )
            found[port.id] = Role.MANAGEMENT, "no_device_on_node", text
        else:
            text = f"{port.id} is {best.name} to its nearest device, and {len(near)} ports share a switch with one"
            found[port.id] = Role.STORAGE, "far", text
    return found


def _other_link_layer(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """One job speaks one link layer: that of the most bandwidth, InfiniBand where that is equal or not known."""
    fabric = [p for p in ports if is_fabric(p) and p.link_layer is not LinkLayer.UNKNOWN]
    layers = {p.link_layer for p in fabric}
    if len(layers) < 2:
        return {}
    rates = _rates(topology, fabric)
    known = len(rates) == len(fabric)
    weights: Counter[LinkLayer] = Counter()
    for port in fabric:
        weights[port.link_layer] += round(rates[port.id]) if known else 1
    chosen = max(layers, key=lambda layer: (weights[layer], layer is LinkLayer.INFINIBAND, layer.value))
    count = sum(p.link_layer is chosen for p in fabric)
    text = "{} is {}, and the compute ports ({}) are {}"
    return {
        p.id: (Role.STORAGE, "link_layer", text.format(p.id, p.link_layer.value, count, chosen.value))
        for p in fabric
        if p.link_layer is not chosen
    }


def _slower_model(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """A slower adapter of another model is there for something else; one of the same model is degraded, and is kept."""
    functions = {f.address: f for f in topology.functions}
    rates = _rates(topology, ports)
    most = max(rates.values(), default=0.0)
    fast = {_model(p, functions) for p in ports if rates.get(p.id, 0.0) * 2 > most}
    found: dict[str, Decision] = {}
    for port in ports:
        rate, model = rates.get(port.id), _model(port, functions)
        if rate is not None and rate * 2 <= most and ((model and model not in fast) or not is_fabric(port)):
            text = f"{port.id} runs at {rate:g} Gbit/s and is another adapter than those of {most:g} Gbit/s"
            found[port.id] = Role.STORAGE if port.rdma else Role.MANAGEMENT, "slower", text
    return found


def _rates(topology: Topology, ports: list[Port]) -> dict[str, float]:
    """Gbit/s where known; of a port that is down, that of its like."""
    distances = Distances(topology)
    return {p.id: rate for p in ports if (rate := distances.nominal_rate(p))}


def _model(port: Port, functions: dict[str, PciFunction]) -> tuple[int | None, int] | None:
    function = functions.get(port.pci)
    return None if function is None or function.device is None else (function.vendor, function.device)


_STEPS: tuple[Callable[[Topology, list[Port]], dict[str, Decision]], ...] = (
    _software,
    _not_for_clusters,
    _same_wire,
    _sockets_only,
    _bonds,
    _far,
    _other_link_layer,
    _slower_model,
)
