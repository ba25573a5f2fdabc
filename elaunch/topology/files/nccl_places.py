"""Which PCI functions go into an NCCL file, and at which of them a port is to be found there."""

from __future__ import annotations

from elaunch.topology import pci
from elaunch.topology.machine import Device, PciFunction, Port, Topology
from elaunch.topology.pci_tree import with_bridges


def functions_with_all(topology: Topology) -> dict[str, PciFunction]:
    """The functions by address, those of devices and ports that the source did not list among them."""
    functions = {function.address: function for function in topology.functions}
    things: tuple[Device | Port, ...] = (*topology.devices, *topology.ports)
    for thing in things:
        if thing.pci:
            functions.setdefault(thing.pci, PciFunction(thing.pci, numa=thing.numa))
    return functions


def ports_by_card(topology: Topology, functions: dict[str, PciFunction]) -> dict[str, list[Port]]:
    """The ports by the function that NCCL has them at: the first of their card, whose link they share."""
    found: dict[str, list[Port]] = {}
    for port in topology.ports:
        if port.pci:
            first = f"{pci.card(port.pci)}.0"
            shared = first in functions and not port.virtual_function and topology.source != "nccl-xml"
            found.setdefault(first if shared else port.pci, []).append(port)
    return found


def kept(topology: Topology, functions: dict[str, PciFunction], ports: dict[str, list[Port]]) -> list[PciFunction]:
    """Devices, NICs and the bridges above them, in order; of an NCCL file everything."""
    if topology.source == "nccl-xml":
        wanted = set(functions)
    else:
        wanted = with_bridges(functions, {device.pci for device in topology.devices} | set(ports))
    return [functions[address] for address in sorted(wanted, key=pci.order)]
