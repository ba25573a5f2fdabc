"""Ports of NICs: RDMA devices joined with their interfaces, and the interfaces that no RDMA device has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elaunch.topology import pci
from elaunch.topology.host.bus import Bus
from elaunch.topology.host.interfaces import (
    Interface,
    hardware,
    is_representor,
    link_layer_of,
    rate_of,
    read_interfaces,
    state_of,
)
from elaunch.topology.host.rdma import RdmaPort, gid_addresses, read_rdma_ports, without_node
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import LinkLayer, Port
from elaunch.topology.naming import ordered
from elaunch.topology.pci_ids import is_efa, is_virtual

Addresses = Mapping[str, tuple[str, ...]]
"""The IP addresses of each interface."""

_DRIVERS = {"efa": LinkLayer.EFA, "hfi1": LinkLayer.OMNIPATH, "hfi2": LinkLayer.OMNIPATH}
_NAMES = {"efa_": LinkLayer.EFA, "rdmap": LinkLayer.EFA, "hfi": LinkLayer.OMNIPATH, "opap": LinkLayer.OMNIPATH}


@dataclass(frozen=True, slots=True)
class _Host:
    tree: Tree
    bus: Bus
    interfaces: Mapping[str, Interface]
    addresses: Addresses | None


def read_ports(tree: Tree, bus: Bus, addresses: Addresses | None) -> tuple[tuple[Port, ...], tuple[str, ...]]:
    """All ports in order, and what is odd about them. ``addresses`` None: not known."""
    host = _Host(tree, bus, read_interfaces(tree), addresses)
    every, lacking = list(read_rdma_ports(tree)), without_node(tree)
    found = [port for port in every if port.nic not in lacking]
    by_holder: dict[str, list[Interface]] = {}
    for interface in host.interfaces.values():
        by_holder.setdefault(interface.holder, []).append(interface)
    ports = [_rdma(host, port, by_holder.get(port.holder, []) if port.holder else []) for port in found]
    owned = {name for port in ports if not port.software for name in port.interfaces}
    for name, interface in host.interfaces.items():
        if name not in owned:
            crowded = len(by_holder[interface.holder]) > 1
            stands_in = crowded and bool(interface.holder) and is_representor(tree, interface)
            ports.append(_plain(host, interface, stands_in))
    notes = [f"{nic} was left aside: there is no /dev/infiniband/{name} here" for nic, name in lacking.items()]
    return ordered(ports), (*(port.odd for port in found if port.odd), *notes)


def _rdma(host: _Host, port: RdmaPort, near: list[Interface]) -> Port:
    names = _interfaces(host, port, near)
    address = host.bus.at(port.holder) if port.holder else ""
    first = host.interfaces.get(names[0]) if names else None
    state, rate = port.state, port.rate
    if port.link_layer is LinkLayer.SLINGSHOT and first is not None:  # its own class tells neither
        state, rate = state_of(host.tree, first), rate_of(host.tree, first)
    bond = next((name for name in names if name in host.interfaces and host.interfaces[name].bond), "")
    facts = _Facts.of(host.bus, address)
    return Port(
        nic=port.nic,
        number=port.number,
        pci=address,
        numa=facts.numa,
        interfaces=names,
        link_layer=_layer(host.bus, port, address),
        rate=rate,
        state=state,
        phys_state=port.phys_state,
        addresses=_rdma_addresses(host, port, names),
        mtu=first.mtu if first else None,
        guid=port.guid,
        driver=facts.driver,
        virtual_function=facts.virtual,
        software=port.holder is not None and not address,
        bond=bond,
        members=host.interfaces[bond].lowers if bond else (),
    )


def _interfaces(host: _Host, port: RdmaPort, near: list[Interface]) -> tuple[str, ...]:
    """The bond's master first, which has the addresses, then what the port itself names, then those of its device.

    An interface belongs to the port of the same device and index: its name may be anything, its place in a list too.
    """
    named = [port.netdev] if port.netdev else []
    own = [each for each in near if port.ports == 1 or each.index == port.number - 1]
    if len(own) > 1:
        own = [each for each in own if not is_representor(host.tree, each)]
    masters = [each.master for each in own if each.master in host.interfaces and host.interfaces[each.master].bond]
    return tuple(dict.fromkeys([*masters, *named, *sorted(each.name for each in own)]))


def _plain(host: _Host, interface: Interface, representor: bool) -> Port:
    """Of a bond or a VLAN: the card that it rests on, where that is one."""
    below = hardware(host.interfaces, interface.name)
    places = sorted({host.bus.at(each.holder) for each in below} - {""}, key=pci.order)
    facts = [_Facts.of(host.bus, place) for place in places]
    numa = {each.numa for each in facts}
    master = host.interfaces.get(interface.master)
    elsewhere = interface.bond and any(name not in host.interfaces for name in interface.lowers)
    return Port(
        nic=interface.name,
        rdma=False,
        pci=places[0] if len({pci.card(place) for place in places}) == 1 else "",
        numa=numa.pop() if len(numa) == 1 else None,
        interfaces=(interface.name,),
        link_layer=link_layer_of(host.tree, interface),
        rate=rate_of(host.tree, interface),
        state=state_of(host.tree, interface),
        addresses=_addresses(host, (interface.name,)),
        mtu=interface.mtu,
        driver=_driver(host.tree, interface),
        virtual_function=len(facts) == 1 and facts[0].virtual,
        software=representor or not (below or elsewhere),
        bond=master.name if master and master.bond else "",
        members=interface.lowers if interface.bond else (),
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the PCI function of a port tells."""

    numa: int | None = None
    driver: str = ""
    virtual: bool = False

    @staticmethod
    def of(bus: Bus, address: str) -> _Facts:
        if not address:
            return _Facts()
        function, identity = bus.function(address), bus.identity(address)
        return _Facts(function.numa, identity.driver, bool(function.physical) or is_virtual(function))


def _driver(tree: Tree, interface: Interface) -> str:
    """Of the device right behind the interface: ``virtio_net``, which is not that of the PCI function below."""
    return (tree.target(f"{interface.holder}/driver") or "").rpartition("/")[2] if interface.holder else ""


def _layer(bus: Bus, port: RdmaPort, address: str) -> LinkLayer:
    """EFA tells no layer of its own, and Omni-Path says that it is InfiniBand: its verbs are, its wire is not."""
    identity = bus.identity(address) if address else None
    if identity and identity.driver:
        return _DRIVERS.get(identity.driver, port.link_layer)
    if identity and identity.vendor:
        return LinkLayer.EFA if is_efa(identity) else port.link_layer
    named = (layer for prefix, layer in _NAMES.items() if port.nic.startswith(prefix))
    return next(named, port.link_layer)


def _rdma_addresses(host: _Host, port: RdmaPort, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Of its interfaces. Where these have none (a VLAN, a bridge or a macvlan on them has), or are those of another
    namespace, RoCE still has what its table of GIDs says."""
    known = [name for name in names if name in host.interfaces]
    found = _addresses(host, tuple(known))
    if found or found is None or port.link_layer is not LinkLayer.ETHERNET:
        return found
    if (told := gid_addresses(host.tree, port.nic, port.number)) is not None:
        return told
    return found if known else None


def _addresses(host: _Host, names: tuple[str, ...]) -> tuple[str, ...] | None:
    if host.addresses is None:
        return None
    return tuple(address for name in names for address in host.addresses.get(name, ()))
