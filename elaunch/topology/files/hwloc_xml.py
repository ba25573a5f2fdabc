"""What hwloc's ``lstopo`` writes as XML, of all its major versions: NUMA nodes, and the PCI tree below host bridges.

Version 1 has NUMA nodes as parents of what is near them, later ones beside it; in both, the nearest object above a
device with a set of nodes tells its node. The kinds of operating system devices are numbers up to version 2 and bits
from 3 on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elaunch.topology.files import kinds, markup
from elaunch.topology.files.assembly import assemble
from elaunch.topology.files.hwloc_devices import is_accelerator, numbered
from elaunch.topology.files.hwloc_pci import function, host_bridge
from elaunch.topology.files.hwloc_ports import is_port, lone_port, ports
from elaunch.topology.files.hwloc_sets import cpus_of, node_of, numa_nodes
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import defect, listed, quoted
from elaunch.topology.machine import NumaNode, PciFunction, Port, Topology


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
    reader.below(machine, _Place())
    return reader.topology(machine)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object stands: near which NUMA node, below which host bridge and which PCI bridge."""

    numa: int | None = None
    root: str = ""
    parent: str = ""


class _Reader:
    def __init__(self, nodes: list[NumaNode]) -> None:
        self._nodes = nodes
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
            self._functions.values(),
            self._nodes,
            allowed_cpus=cpus_of(machine, "allowed_cpuset") or cpus_of(machine, "cpuset") or None,
            notes=self._notes,
        )

    def _object(self, element: Element, place: _Place) -> None:
        kind = element.get("type")
        if kind == "Bridge":
            self._bridge(element, place)
        elif kind == "PCIDev":
            self._device(element, place)
        elif kind == "OSDev":
            if is_port(element):
                self._add([lone_port(element, place.numa)])
        else:
            known, numa = node_of(element, self._nodes)
            self.below(element, replace(place, numa=numa) if known else place)

    def _bridge(self, element: Element, place: _Place) -> None:
        if not element.get("pci_busid"):
            self.below(element, _Place(place.numa, root=host_bridge(element)))
            return
        found = function(element, place.parent, place.root, place.numa)
        if self._is_new(found):
            self.below(element, replace(place, parent=found.address))

    def _device(self, element: Element, place: _Place) -> None:
        found = function(element, place.parent, place.root, place.numa)
        if not self._is_new(found):
            return
        if is_accelerator(found, element):
            self._accelerators.append((found, element))
        its_ports = ports(element, found)
        self._add(its_ports)
        if kinds.is_network(found) and not its_ports:
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
