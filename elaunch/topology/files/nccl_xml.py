"""An NCCL (or RCCL) topology file: ``<system>``, a ``<cpu>`` for each NUMA node, below it the PCI tree that NCCL keeps.

The rules are those of NCCL's src/graph/xml.cc and topo.cc. Files written by hand leave much out; what a function is
then follows from its children, its class or its ids, and where none tells it the function is kept, with a note.
"""

from __future__ import annotations

from elaunch.errors import TopologyError
from elaunch.topology import pci, pci_ids
from elaunch.topology.cpus import MOST, CpuSet, cpu_set, parse_mask
from elaunch.topology.files import kinds, markup
from elaunch.topology.files.assembly import assemble
from elaunch.topology.files.markup import Element
from elaunch.topology.files.nccl_devices import device
from elaunch.topology.files.nccl_fields import address, class_code, hexadecimal, integer, speed
from elaunch.topology.files.nccl_nets import ports
from elaunch.topology.files.wording import defect, quoted
from elaunch.topology.machine import Device, NumaNode, PciFunction, Port, Topology
from elaunch.topology.naming import listed

_VERSIONS = ("1", "2")
_MOST_REPEATED = 1024
_VGA = 0x0300


def parse(data: bytes) -> Topology:
    """The machine that the file describes. Raises TopologyError with the line and what stands there."""
    return describe(markup.parse(data))


def describe(system: Element) -> Topology:
    if system.tag != "system":
        raise defect(system.line, f"found the element {quoted(system.tag)}", "expected 'system'")
    reader = _Reader()
    version = system.get("version")
    if version not in _VERSIONS:
        reader.notes.append(f"the file says version {quoted(version)}; it is read as version 1")
    for cpu in _one_host(system, reader.notes):
        reader.cpu(cpu)
    return reader.topology()


def _one_host(system: Element, notes: list[str]) -> list[Element]:
    """The NUMA nodes of the first host: a file fused from several describes one machine after the other."""
    cpus = system.all("cpu")
    hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in cpus))
    if len(hosts) > 1:
        notes.append(f"the file describes {len(hosts)} hosts; only the first is read")
    return [cpu for cpu in cpus if cpu.get("host_hash") == hosts[0]]


class _Reader:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self._functions: dict[str, PciFunction] = {}
        self._devices: list[Device] = []
        self._ports: dict[str, Port] = {}
        self._numa: dict[int, CpuSet] = {}
        self._cpus = 0
        self._unknown: list[str] = []
        self._repeated: dict[str, int] = {}

    def cpu(self, element: Element) -> None:
        number = integer(element, "numaid")
        numa = number if number is not None and number >= 0 else None
        if numa is not None:
            cpus = _affinity(element)
            self._cpus += len(cpus)
            if self._cpus > 2 * MOST:
                raise defect(element.line, f"found over {2 * MOST} CPUs in all", "expected those of one machine")
            self._numa[numa] = cpu_set((*self._numa.get(numa, ()), *cpus))
        self._nets(element, None, numa)
        for child in element.all("pci"):
            self._pci(child, "", numa)

    def topology(self) -> Topology:
        if self._unknown:
            which = listed(self._unknown)
            self.notes.append(f"neither class nor ids say what these PCI functions are: {which}")
        for where, more in self._repeated.items():
            self.notes.append(f"{where} is the address of {more + 1} bridges: each other one is given one of its own")
        numa = (NumaNode(number, cpus) for number, cpus in self._numa.items())
        return assemble(
            "nccl-xml", self._devices, self._ports.values(), self._functions.values(), numa, notes=self.notes
        )

    def _pci(self, element: Element, parent: str, numa: int | None) -> None:
        where = address(element)
        if where in self._functions:
            if not element.all("pci"):
                self.notes.append(f"{where} is described twice; the first description holds")
                return
            where = self._another(where, element.line)
        function = PciFunction(
            address=where,
            parent=parent,
            numa=numa,
            class_code=class_code(element),
            vendor=hexadecimal(element, "vendor"),
            device=hexadecimal(element, "device"),
            speed=speed(element),
            width=integer(element, "link_width"),
        )
        self._functions[where] = function
        self._kind(element, function)
        for child in element.all("pci"):
            self._pci(child, where, numa)

    def _another(self, taken: str, line: int) -> str:
        """An address that nothing has, for a bridge with the address of another: NCCL takes them for two."""
        domain, rest = int(taken.split(":")[0], 16), taken.partition(":")[2]
        self._repeated[taken] = number = self._repeated.get(taken, 0) + 1
        if number > _MOST_REPEATED:
            raise defect(line, f"found over {_MOST_REPEATED} bridges at {taken}", "expected those of one machine")
        addresses = (f"{domain + (n << 16):04x}:{rest}" for n in range(number, number + len(self._functions)))
        return next(address for address in addresses if address not in self._functions)

    def _kind(self, element: Element, function: PciFunction) -> None:
        gpus, nics = element.all("gpu"), element.all("nic")
        if gpus:
            self._devices.append(device(gpus[0], function, self.notes))
        if nics:
            self._nets(element, function, function.numa)
        if gpus or nics or element.all("pci"):
            return
        if _is_gpu(function):
            self._devices.append(device(None, function, self.notes))
        elif pci_ids.is_network(function):
            self._add([_unnamed(function)])
        elif function.class_code is None:
            self._unknown.append(function.address)

    def _nets(self, element: Element, function: PciFunction | None, numa: int | None) -> None:
        nets = [net for nic in element.all("nic") for net in nic.all("net")]
        if nets:
            self._add(ports(nets, function, numa, self.notes))
        elif function is not None:
            self._add([_unnamed(function)])

    def _add(self, ports: list[Port]) -> None:
        for port in ports:
            if self._ports.setdefault(port.id, port) is not port:
                self.notes.append(f"{port.id} is described twice; the first description holds")


def _is_gpu(function: PciFunction) -> bool:
    """Also by class or vendor alone, where a file has no more: no one describes a console's display or a sound chip."""
    if function.class_code is None:
        return function.vendor == pci_ids.NVIDIA
    kind = function.class_code >> 8
    bare = function.vendor is None and kind >> 8 == pci.DISPLAY and kind != _VGA
    return bare or pci_ids.is_accelerator(function)


def _unnamed(function: PciFunction) -> Port:
    """The port of a NIC whose name the file leaves to the machine: it is known by its address."""
    return Port(
        nic=function.address,
        pci=function.address,
        numa=function.numa,
        link_layer=kinds.link_layer("", function),
        virtual_function=kinds.is_virtual_function(function),
    )


def _affinity(cpu: Element) -> CpuSet:
    text = cpu.get("affinity")
    try:
        return parse_mask(text) if text else ()
    except ValueError as error:
        raise TopologyError(f"line {cpu.line}: affinity: {error}") from error
