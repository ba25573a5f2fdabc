"""What this host has: devices, ports, the PCI tree between them, NUMA nodes, CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elaunch.topology.host.accelerators import Drivers, read_devices
from elaunch.topology.host.addresses import read_addresses
from elaunch.topology.host.allowed import allowed_cpus
from elaunch.topology.host.bus import FALLEN, Bus
from elaunch.topology.host.kfd import read_kfd
from elaunch.topology.host.numa import read_nodes
from elaunch.topology.host.nvidia import read_driver
from elaunch.topology.host.nvml import read_nvml
from elaunch.topology.host.ports import read_ports
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import PciFunction, Topology

HOST = Path("/")


def discover(root: Path = HOST, *, nvml: bool = True) -> Topology:
    """The machine whose ``sys``, ``proc`` and ``dev`` are in ``root``: this host, or a captured tree.

    Never fails: what cannot be read is not known, and what is odd is in ``notes``. Of a captured tree nothing is asked
    that only this host could answer: NVML (``nvml`` False leaves it out here too) and IP addresses. A device's
    ``index`` is its place in NVML's or ROCm's order, for NVIDIA the order of PCI addresses: CUDA counts otherwise on a
    machine of unlike GPUs, unless CUDA_DEVICE_ORDER=PCI_BUS_ID. ``functions`` are devices, NICs and what is above them.
    """
    tree = Tree(root)
    driver = read_driver(tree)
    memories = [(told.memory, told.address) for told in driver or () if told.memory is not None]
    nodes = read_nodes(tree, (number for number, _ in memories))
    bus = Bus(tree, nodes)
    library, odd = read_nvml() if nvml and tree.real else (None, [])
    ports, odd_ports = read_ports(tree, bus, read_addresses() if tree.real else None)
    drivers = Drivers(nvidia=driver if library is None else library, amd=read_kfd(tree))
    devices, aside = read_devices(bus, nodes, drivers)
    wanted = {device.pci for device in devices} | {port.pci for port in ports}
    functions = tuple(map(bus.function, bus.with_bridges(address for address in wanted if address in bus)))
    return Topology(
        source="sysfs",
        devices=devices,
        ports=ports,
        functions=functions,
        numa=nodes,
        allowed_cpus=allowed_cpus(tree),
        notes=(*odd, *odd_ports, *aside, *_odd_functions(functions), *_memories(memories), *_nothing(tree)),
    )


def _odd_functions(functions: Iterable[PciFunction]) -> list[str]:
    dead = [function.address for function in functions if function.width == FALLEN]
    return [f"PCI function {address} answers no more: it has fallen off the bus" for address in dead]


def _memories(owners: list[tuple[int, str]]) -> list[str]:
    return [f"NUMA node {node} is the memory of GPU {address}, no place for processes" for node, address in owners]


def _nothing(tree: Tree) -> list[str]:
    return [] if tree.names("sys") else ["there is no sysfs here: nothing is known of devices and ports"]
