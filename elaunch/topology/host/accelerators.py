"""The accelerators of this host: what is on its bus, and what its drivers list, which have the last word."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from elaunch.topology.cpus import CpuSet
from elaunch.topology.host.bus import Bus
from elaunch.topology.host.told import Told
from elaunch.topology.machine import Device, NumaNode
from elaunch.topology.pci_ids import AMD, NVIDIA, is_accelerator, maker


@dataclass(frozen=True, slots=True)
class Drivers:
    """What the vendors' drivers list, in their order. None: no driver tells."""

    nvidia: list[Told] | None
    amd: list[Told] | None


def read_devices(bus: Bus, nodes: tuple[NumaNode, ...], drivers: Drivers) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """The devices in their drivers' order, NVIDIA's first, and a sentence for each that was left aside."""
    on_bus: dict[int | None, list[str]] = {NVIDIA: [], AMD: []}
    for address in bus.addresses():
        if is_accelerator(bus.identity(address)):
            on_bus.setdefault(bus.identity(address).vendor, []).append(address)
    told = {NVIDIA: drivers.nvidia, AMD: drivers.amd}
    notes: list[str] = []
    found: list[tuple[int | None, Told]] = []
    for vendor, addresses in on_bus.items():
        listed = told.get(vendor or 0)
        own = _unlisted(bus, addresses, notes) if listed is None else _listed(listed, addresses, notes)
        found += [(vendor, each) for each in own]
    ids = {each.id or each.address for _, each in found}
    devices = (_device(bus, nodes, vendor, each, index, ids) for index, (vendor, each) in enumerate(found))
    return tuple(devices), tuple(notes)


def _listed(told: list[Told], on_bus: list[str], notes: list[str]) -> Iterator[Told]:
    listed = {each.address for each in told}
    for address in on_bus:
        if address not in listed:
            notes.append(f"device {address} was left aside: its driver does not list it")
    for each in told:
        if each.hidden:
            notes.append(f"device {each.id or each.address} was left aside: {each.hidden}")
        else:
            yield each


def _unlisted(bus: Bus, on_bus: list[str], notes: list[str]) -> Iterator[Told]:
    for address in on_bus:
        physical = bus.function(address).physical
        if physical in on_bus:
            notes.append(f"device {address} was left aside: it is a virtual function of {physical}")
        else:
            yield Told(address)


def _device(
    bus: Bus, nodes: tuple[NumaNode, ...], vendor: int | None, told: Told, index: int, ids: Collection[str]
) -> Device:
    known = told.address in bus
    numa = bus.function(told.address).numa if known else None
    return Device(
        id=told.id or told.address,
        index=index,
        pci=told.address,
        uuid=told.uuid,
        vendor=maker(vendor) or (f"{vendor:04x}" if vendor is not None else ""),
        model=told.model,
        numa=numa,
        cpus=_cpus(nodes, numa, bus.near(told.address)) if known else None,
        peers=tuple(peer for peer in told.peers if peer.device in ids),
    )


def _cpus(nodes: tuple[NumaNode, ...], numa: int | None, near: CpuSet | None) -> CpuSet | None:
    """Only where they say more than the node does. All CPUs, as in a virtual machine, say nothing."""
    every = {cpu for node in nodes for cpu in node.cpus}
    known = [node.cpus for node in nodes if node.number == numa]
    return None if not near or near in known or every <= set(near) else near
