"""What hwloc's ``lstopo`` writes as XML, of all its major versions: NUMA nodes, and the PCI tree below host bridges.

Version 1 has NUMA nodes as parents of what is near them, later ones beside it; in both, the nearest object above a
device with a set of nodes tells its node. The kinds of operating system devices are numbers up to version 2 and bits
from 3 on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elaunch.topology.files import markup
from elaunch.topology.files.assembly import assemble
from elaunch.topology.files.hwloc_devices import is_accelerator, numbered
from elaunch.topology.files.hwloc_pci import function, host_bridge
from elaunch.topology.files.hwloc_ports import is_port, lone_port, ports
from elaunch.topology.files.hwloc_sets import Places, cpus_of, numa_nodes, tells_place
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import defect, quoted
from elaunch.topology.machine import NumaNode, PciFunction, Port, Topology
from elaunch.topology.naming import listed
from elaunch.topology.pci_ids import is_network
from elaunch.topology.pci_tree import with_bridges


def parse(data: bytes) -> Topology:
    """The machine that the file describes. Raises TopologyError with the line and what stands there."""
    return describe(markup.parse(data))


def describe(topology: Element) -> Topology:
    if topology.tag != "topology":
        raise defect(topology.line, f"found the element {quoted(topology.tag)}", "expected 'topology'")
    machine = next(iter(topology.all("object")), None)
    if machine is None:
        raise defect(topology.line, "found no object", "expected that of a machine")
    reader = _Reader(numa_nodes(machine))
    reader.below(machine, _Place(machine))
    return reader.topology(machine)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object stands: in which that tells its CPUs, below which host bridge and which PCI bridge."""

    near: Element | None = None
    root: str = ""
    parent: str = ""


class _Reader:
    def __init__(self, nodes: list[NumaNode]) -> None:
        self._nodes = nodes
        self._places = Places(nodes)
        self._functions: dict[str, PciFunction] = {}
        self._accelerators: list[tuple[PciFunction, Element]] = []
        self._ports: dict[str, Port] = {}
        self._bare: list[str] = []
        self._notes: list[str] = []

    def below(self, element: Element, place: _Place) -> None:
        for child in element.all("object"):
            self._object(child, place)

    def topology(self, machine: Element) -> Topology:
        if self._bare:
            self._notes.append(f"no driver shows an interface or RDMA device of the NICs {listed(self._bare)}")
        return assemble(
            "hwloc-xml",
            numbered(self._accelerators),
            self._ports.values(),
            self._wanted(),
            self._nodes,
            allowed_cpus=cpus_of(machine, "allowed_cpuset") or cpus_of(machine, "cpuset") or None,
            notes=self._notes,
        )

    def _wanted(self) -> list[PciFunction]:
        """Devices, NICs and the bridges above them: what else a machine has is of no use here."""
        wanted = {found.address for found, _ in self._accelerators} | {port.pci for port in self._ports.values()}
        kept = with_bridges(self._functions, wanted.union(self._bare))
        return [found for address, found in self._functions.items() if address in kept]

    def _object(self, element: Element, place: _Place) -> None:
        kind = element.get("type")
        if kind == "Bridge":
            self._bridge(element, place)
        elif kind == "PCIDev":
            self._device(element, place)
        elif kind == "OSDev":
            if is_port(element):
                self._add([lone_port(element, self._places.node(place.near))])
        else:
            self.below(element, replace(place, near=element) if tells_place(element) else place)

    def _bridge(self, element: Element, place: _Place) -> None:
        if not element.get("pci_busid"):
            self.below(element, _Place(place.near, root=host_bridge(element)))
            return
        found = function(element, place.parent, place.root, self._places.node(place.near))
        if self._is_new(found):
            self.below(element, replace(place, parent=found.address))

    def _device(self, element: Element, place: _Place) -> None:
        found = function(element, place.parent, place.root, self._places.node(place.near))
        if not self._is_new(found):
            return
        if is_accelerator(found, element):
            self._accelerators.append((found, element))
        its_ports = ports(element, found)
        self._add(its_ports)
        if is_network(found) and not its_ports:
            self._bare.append(found.address)
        self.below_device(element, place)

    def below_device(self, element: Element, place: _Place) -> None:
        for child in element.all("object"):
            if child.get("type") in ("Bridge", "PCIDev"):
                self._object(child, place)

    def _is_new(self, found: PciFunction) -> bool:
        new = found.address not in self._functions
        if new:
            self._functions[found.address] = found
        else:
            self._notes.append(f"{found.address} is described twice; the first description holds")
        return new

    def _add(self, ports: list[Port]) -> None:
        for port in ports:
            if self._ports.setdefault(port.id, port) is not port:
                self._notes.append(f"{port.id} is described twice; the first description holds")
