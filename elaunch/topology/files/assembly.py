"""The last step of every reader: what was found, in the order that ``Topology`` promises, with what is odd in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from elaunch.topology import pci
from elaunch.topology.cpus import CpuSet
from elaunch.topology.machine import Device, NumaNode, PciFunction, Port, ToldLevel, Topology
from elaunch.topology.naming import device_order, listed, ordered

_MOST_NOTES = 50
_NOT_SAID = -1
"""The index of a device to which the source gives none."""


def assemble(
    source: str,
    devices: Iterable[Device],
    ports: Iterable[Port],
    functions: Iterable[PciFunction] = (),
    numa: Iterable[NumaNode] = (),
    allowed_cpus: CpuSet | None = None,
    levels: Iterable[ToldLevel] = (),
    notes: Iterable[str] = (),
) -> Topology:
    """A ``Topology``. A device's index below 0 means that the source does not say it: it follows from the addresses."""
    nodes = tuple(sorted(numa, key=lambda node: node.number))
    numbered, odd = _numbered(list(devices))
    return Topology(
        source=source,
        devices=numbered,
        ports=ordered(ports),
        functions=tuple(sorted(functions, key=lambda function: pci.order(function.address))),
        numa=nodes,
        allowed_cpus=allowed_cpus,
        levels=tuple(levels),
        notes=_few([*notes, *odd, *_overlaps(nodes)]),
    )


def _numbered(devices: list[Device]) -> tuple[tuple[Device, ...], list[str]]:
    """In the driver's order, each with an index of its own."""
    devices.sort(key=device_order)
    indices = [device.index for device in devices if device.index != _NOT_SAID]
    said = set(indices)
    odd = []
    if len(said) < len(indices) or min(said, default=0) < 0:
        odd.append("devices share an index: all are numbered in the order of their PCI addresses")
        said = set()
        devices = [replace(device, index=_NOT_SAID) for device in devices]
    free = (n for n in range(len(said) + len(devices)) if n not in said)
    numbered = [device if device.index != _NOT_SAID else replace(device, index=next(free)) for device in devices]
    return tuple(sorted(numbered, key=lambda device: device.index)), odd


def _few(notes: list[str]) -> tuple[str, ...]:
    """Each once, and not more than anyone reads: a damaged file may have one for each of its lines."""
    once = tuple(dict.fromkeys(notes))
    rest = len(once) - _MOST_NOTES
    return once if rest <= 0 else (*once[:_MOST_NOTES], f"and {rest} more like these")


def _overlaps(nodes: tuple[NumaNode, ...]) -> list[str]:
    claims = Counter(cpu for node in nodes for cpu in node.cpus)
    clash = [str(node.number) for node in nodes if any(claims[cpu] > 1 for cpu in node.cpus)]
    return [f"NUMA nodes {listed(clash)} claim the same CPUs"] if clash else []
