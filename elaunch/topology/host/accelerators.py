"""Which PCI functions are accelerators, and what they are.

A display controller of NVIDIA or AMD is one; that of a board's management controller (ASPEED, Matrox) or of a virtual
machine is not. Of Intel's only those without a display are (class 0380, Data Center GPU Max and Flex): the others are
part of a processor or of a desktop. Its co-processors are mostly QuickAssist, which computes nothing for a model:
only the Xeon Phi counts. Of processing accelerators (class 12) all do but Intel's (a laptop's NPU) and Xilinx's (FPGAs
that no PyTorch drives). A driver that is there has the last word: what it does not list, no process can use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from elaunch.topology import pci
from elaunch.topology.cpus import CpuSet
from elaunch.topology.host.bus import Bus, Identity
from elaunch.topology.host.told import Told
from elaunch.topology.machine import Device, NumaNode

NVIDIA, AMD, INTEL, XILINX = 0x10DE, 0x1002, 0x8086, 0x10EE
_NAMES = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel", 0x1DA3: "Habana", 0x19E5: "Huawei", 0xCABC: "Cambricon"}
_XEON_PHI = range(0x2250, 0x2260)
_HEADLESS = 0x0380


@dataclass(frozen=True, slots=True)
class Drivers:
    """What the vendors' drivers list, in their order. None: no driver tells."""

    nvidia: list[Told] | None
    amd: list[Told] | None


def is_accelerator(identity: Identity) -> bool:
    kind = (identity.class_code or 0) >> 8
    vendor = identity.vendor
    if kind >> 8 == pci.DISPLAY:
        return vendor in (NVIDIA, AMD) or (vendor == INTEL and kind == _HEADLESS)
    if kind == pci.CO_PROCESSOR:
        return vendor == NVIDIA or (vendor == INTEL and identity.device in _XEON_PHI)
    return kind >> 8 == pci.ACCELERATOR and vendor not in (INTEL, XILINX)


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
        vendor=_NAMES.get(vendor, f"{vendor:04x}") if vendor is not None else "",
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
