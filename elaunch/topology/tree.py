"""A machine as the tree that a person has in mind: NUMA nodes, host bridges, switches, devices and ports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from elaunch.topology.cpus import format_list
from elaunch.topology.machine import Device, PciFunction, Port, PortState, Topology
from elaunch.topology.pci import order
from elaunch.topology.pci_tree import PciTree


@dataclass(frozen=True, slots=True)
class Branch:
    """``kind`` is machine, numa, root, switch, device or port; ``key`` is the id of a device or port, else empty."""

    kind: str
    name: str
    detail: str = ""
    key: str = ""
    children: tuple[Branch, ...] = ()


def tree(topology: Topology) -> Branch:
    """The machine; bridges that lead to no device and no port are left out, and those with one way on are one."""
    pci = PciTree(topology)
    leaves: list[tuple[tuple[Branch, ...], Branch]] = []
    for device in topology.devices:
        leaves.append((_way(device.pci, device.numa, pci, topology), _device(device)))
    for port in topology.ports:
        if not port.software:
            leaves.append((_way(port.pci, port.numa, pci, topology), _port(port)))
    return _short(Branch("machine", "machine", children=_grown(leaves)))


def _way(address: str, numa: int | None, pci: PciTree, topology: Topology) -> tuple[Branch, ...]:
    """What stands above a device or port, the outermost first."""
    above = [Branch("switch", f"PCI {bridge.address}", _link(bridge)) for bridge in pci.bridges(address)]
    if root := pci.root(address):
        above.append(Branch("root", f"host bridge {root}"))
    above.append(_numa(pci.numa(address) if numa is None else numa, topology))
    return tuple(reversed(above))


def _numa(number: int | None, topology: Topology) -> Branch:
    if number is None:
        return Branch("numa", "NUMA node not known")
    cpus = next((node.cpus for node in topology.numa if node.number == number), ())
    return Branch("numa", f"NUMA node {number}", f"CPUs {format_list(cpus)}" if cpus else "")


def _link(function: PciFunction) -> str:
    return f"{function.speed:g} GT/s x{function.width}" if function.speed and function.width else ""


def _device(device: Device) -> Branch:
    named = [text for text in (device.model or device.vendor, device.uuid) if text]
    return Branch("device", f"device {device.id}", ", ".join(named), device.id)


def _port(port: Port) -> Branch:
    # What is wrong comes first: a picture has room for some words only.
    told = [port.state.value if port.state not in (PortState.ACTIVE, PortState.UNKNOWN) else "", port.phys_state]
    told += [port.link_layer.value if port.link_layer.value != "unknown" else ""]
    told += [f"{port.rate:g} Gbit/s" if port.rate else "", ",".join(i for i in port.interfaces if i != port.nic)]
    shown = [text for text in told if text and text != "LinkUp"]
    return Branch("port", f"NIC {port.id}", ", ".join(shown), port.id)


def _grown(leaves: Iterable[tuple[tuple[Branch, ...], Branch]]) -> tuple[Branch, ...]:
    """One level of the tree from the ways to its leaves."""
    here: list[Branch] = []
    below: dict[tuple[str, str], tuple[Branch, list[tuple[tuple[Branch, ...], Branch]]]] = {}
    for way, leaf in leaves:
        if not way:
            here.append(leaf)
            continue
        first = way[0]
        _, rest = below.setdefault((first.kind, first.name), (first, []))
        rest.append((way[1:], leaf))
    grown = [replace(branch, children=_grown(rest)) for branch, rest in below.values()]
    return (*sorted(grown, key=_sorting), *here)


def _sorting(branch: Branch) -> tuple[int, tuple[int, ...], str]:
    word = branch.name.rpartition(" ")[2]
    if branch.kind == "switch":
        return 1, order(word), branch.name
    if word.isdecimal():
        return 0, (int(word),), branch.name
    return 2, (), branch.name


def _short(branch: Branch) -> Branch:
    """The branch with chains of bridges made one."""
    children = tuple(_short(child) for child in branch.children)
    if branch.kind == "switch" and len(children) == 1 and children[0].kind == "switch":
        only = children[0]
        return replace(only, name=f"{branch.name} > {only.name.removeprefix('PCI ')}")
    return replace(branch, children=children)
