"""A machine as a topology file that NCCL (or RCCL) takes by ``NCCL_TOPO_FILE``.

Only what the file's reader in NCCL (src/graph/xml.cc) uses and does not find better itself is written: the tree of
bridges, devices and NICs below NUMA nodes, with the ports' names and rates. Direct links are written only where an NCCL
file told them: NVML's and ROCm's tell them as NCCL does not count them. Memory links (c2c) need a bandwidth, which
``Topology`` does not hold; NCCL looks for them where the file has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import quoteattr

from elaunch.errors import TopologyError
from elaunch.topology.cpus import CpuSet
from elaunch.topology.files.nccl_places import functions_with_all, kept, ports_by_card
from elaunch.topology.files.processor import Processor
from elaunch.topology.machine import Device, PciFunction, Port, Topology

LONGEST = 254
"""Characters of an attribute that NCCL reads: a longer mask of CPUs is left out, and NCCL takes it from sysfs."""
_NVSWITCH = 0x068000


def to_nccl_xml(topology: Topology, processor: Processor) -> str:
    """The text of the file. ``processor``: that of the machine described.

    Raises TopologyError for a machine of whose devices and ports no PCI address is known (``nvidia-smi topo -m``).
    """
    things: tuple[Device | Port, ...] = (*topology.devices, *topology.ports)
    if things and not any(thing.pci for thing in things):
        raise TopologyError(f"an NCCL file needs PCI addresses; {topology.source} tells none of this machine")
    return "".join(f"{line}\n" for line in _Writer(topology, processor).lines())


class _Writer:
    def __init__(self, topology: Topology, processor: Processor) -> None:
        self._topology = topology
        self._processor = processor
        self._told = topology.source == "nccl-xml"
        self._devices = {device.pci: device for device in topology.devices if device.pci}
        self._functions = functions_with_all(topology)
        self._ports = ports_by_card(topology, self._functions)
        self._below: dict[str, list[PciFunction]] = {}
        for function in kept(topology, self._functions, self._ports):
            above = function.parent if function.parent in self._functions else ""
            self._below.setdefault(above, []).append(function)
        self._nets = 0

    def lines(self) -> list[str]:
        amd = any(device.vendor == "AMD" for device in self._topology.devices)
        cpus = {node.number: node.cpus for node in self._topology.numa}
        top = self._below.get("", [])
        lone = [port for port in self._topology.ports if not port.pci and self._told]
        places = {*cpus, *(function.numa for function in top), *(port.numa for port in lone)}
        inside: list[str] = []
        for numa in sorted(places, key=lambda number: -1 if number is None else number):
            here = [line for function in top if function.numa == numa for line in self._pci(function)]
            here += self._nic([port for port in lone if port.numa == numa])
            inside += _element("cpu", self._cpu(numa, () if numa is None else cpus.get(numa, ())), here)
        return _element("system", {"version": "2" if amd else "1"}, inside)

    def _cpu(self, numa: int | None, cpus: CpuSet) -> dict[str, str]:
        mask, processor = _mask(cpus), self._processor
        return {
            "numaid": str(-1 if numa is None else numa),
            "affinity": mask if len(mask) <= LONGEST else "",
            "arch": processor.arch,
            "vendor": processor.vendor,
            "familyid": _text(processor.family),
            "modelid": _text(processor.model),
        }

    def _pci(self, function: PciFunction) -> list[str]:
        attributes = {
            "busid": function.address,
            "class": _hex(function.class_code, 6),
            "vendor": _hex(function.vendor, 4),
            "device": _hex(function.device, 4),
            "link_speed": "" if function.speed is None else f"{function.speed:.1f} GT/s PCIe",
            "link_width": _text(function.width),
        }
        device = self._devices.get(function.address)
        inside = self._gpu(device) if device else []
        inside += self._nic(self._ports.get(function.address, []))
        inside += [line for child in self._below.get(function.address, []) for line in self._pci(child)]
        return _element("pci", attributes, inside)

    def _gpu(self, device: Device) -> list[str]:
        links = []
        for peer in device.peers if self._told else ():
            if peer.device and peer.kind != "c2c":
                target = self._functions.get(peer.device)
                kind = _NVSWITCH if target is None or target.class_code is None else target.class_code
                attributes = {"target": peer.device, "count": str(peer.count), "tclass": _hex(kind, 6)}
                links += _element(peer.kind, attributes)
        model = device.model if device.model.startswith("gfx") else ""
        return _element("gpu", {"dev": str(device.index), "gcn": model}, links)

    def _nic(self, ports: list[Port]) -> list[str]:
        """Without a name of its own (known by its address), a port is left for NCCL to find at the function."""
        lines = []
        for place, port in enumerate(port for port in ports if port.nic != port.pci):
            attributes = {
                "name": port.nic,
                "dev": str(self._nets),
                "speed": "" if port.rate is None else str(round(port.rate * 1000)),
                "port": str(port.number + place if port.rdma else 0),
                "guid": _guid(port.guid),
                "gdr": "" if port.gdr is None else str(int(port.gdr)),
            }
            self._nets += 1
            lines += _element("net", attributes)
        return _element("nic", {}, lines) if lines else []


def _element(tag: str, attributes: dict[str, str], inside: Iterable[str] = ()) -> list[str]:
    """Its lines: without what is empty, with one blank before each attribute, as NCCL's reader wants them."""
    opening = tag + "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items() if value)
    lines = [f"  {line}" for line in inside]
    return [f"<{opening}>", *lines, f"</{tag}>"] if lines else [f"<{opening}/>"]


def _mask(cpus: CpuSet) -> str:
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits:
        words.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(words))


def _guid(text: str) -> str:
    digits = text.removeprefix("0x").replace(":", "")
    return f"0x{digits}" if digits else ""


def _hex(number: int | None, digits: int) -> str:
    return "" if number is None else f"0x{number:0{digits}x}"


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
