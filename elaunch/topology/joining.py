"""A machine as a file describes it, with what only its own kernel can tell: states, addresses, which CPUs there are.

The file is given because the kernel shows too little (a virtual machine without a tree), so its tree and its rates
count. What is there at all is the kernel's to say, and NCCL too drops what a file has beyond that: a file may be
another machine's, or the whole machine's of which a container has a part. Where a process may run is the kernel's too:
of NUMA nodes and CPUs it has the last word, and where the file differs there, that is told. A vendor's file with its
nodes swapped binds every rank to the far socket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from elaunch.topology.cpus import format_list
from elaunch.topology.machine import Device, LinkLayer, Port, PortState, Topology
from elaunch.topology.naming import listed


def joined(file: Topology, host: Topology) -> tuple[Topology, tuple[str, ...]]:
    """Both in one, and a sentence for each fact in which they contradict each other. A captured tree stands alone."""
    if file.source == host.source:
        return file, ()
    if not host.devices and not host.ports:  # the kernel tells nothing here
        return replace(file, allowed_cpus=host.allowed_cpus), ()
    devices = [(each, _device_of(each, host.devices)) for each in file.devices]
    ports = [(each, _port_of(each, host.ports)) for each in file.ports]
    known_devices = {own.id for _, own in devices if own is not None}
    known_ports = {own.id for _, own in ports if own is not None}
    if not known_devices and not known_ports and (devices or ports):
        return host, ("the file describes no device and no port of this machine: it is not used",)
    absent = [d.id for d, own in devices if own is None and host.devices] + [p.id for p, own in ports if own is None]
    devices = [(each, own) for each, own in devices if own is not None or not host.devices]
    ports = [(each, own) for each, own in ports if own is not None]
    functions = {function.address: function for function in (*host.functions, *file.functions)}
    machine = replace(
        file,
        devices=_in_order(
            [_device(each, own) for each, own in devices] + [d for d in host.devices if d.id not in known_devices]
        ),
        ports=tuple(_port(each, own) for each, own in ports)
        + tuple(port for port in host.ports if port.id not in known_ports),
        functions=tuple(functions.values()),
        numa=host.numa or file.numa,
        allowed_cpus=host.allowed_cpus,
        notes=(*file.notes, *host.notes),
    )
    return machine, (*_absent(absent), *_swapped(devices), *_masks(file, host))


def _device_of(device: Device, here: Iterable[Device]) -> Device | None:
    """By its address or UUID; by its number where the file has neither."""
    if device.pci or device.uuid:
        return next((d for d in here if (d.pci and d.pci == device.pci) or (d.uuid and d.uuid == device.uuid)), None)
    return next((d for d in here if d.index == device.index), None)


def _port_of(port: Port, here: Iterable[Port]) -> Port | None:
    """By its name; a renamed one by the address of its function."""
    same = [own for own in here if own.rdma == port.rdma and own.number == port.number]
    named = next((own for own in same if own.nic == port.nic), None)
    if named is not None and (not port.pci or named.pci == port.pci):
        return named
    at = [own for own in same if port.pci and own.pci == port.pci]
    return at[0] if len(at) == 1 else named


def _device(device: Device, own: Device | None) -> Device:
    if own is None:
        return device
    return replace(
        device,
        index=own.index,
        pci=device.pci or own.pci,
        uuid=own.uuid or device.uuid,
        vendor=own.vendor or device.vendor,
        model=own.model or device.model,
        numa=device.numa if own.numa is None else own.numa,
        cpus=own.cpus if own.numa is not None or own.cpus is not None else device.cpus,
        peers=device.peers or own.peers,
    )


def _in_order(devices: list[Device]) -> tuple[Device, ...]:
    return tuple(sorted(devices, key=lambda device: device.index))


def _port(port: Port, own: Port | None) -> Port:
    """The host's port, at the place and with the rate that the file says."""
    if own is None:
        return port
    return replace(
        own,
        pci=port.pci or own.pci,
        numa=port.numa if own.numa is None else own.numa,
        rate=port.rate or own.rate,
        link_layer=own.link_layer if own.link_layer is not LinkLayer.UNKNOWN else port.link_layer,
        state=own.state if own.state is not PortState.UNKNOWN else port.state,
        gdr=port.gdr,
    )


def _absent(names: list[str]) -> list[str]:
    """A library that is told of a NIC that is not there uses none at all, or sockets."""
    return [f"the file describes what this machine has not, which is left out: {listed(names)}"] if names else []


def _swapped(devices: Iterable[tuple[Device, Device | None]]) -> list[str]:
    differ = [
        (d, own) for d, own in devices if own is not None and None not in (d.numa, own.numa) and d.numa != own.numa
    ]
    if not differ:
        return []
    first, own = differ[0]
    more = f", and so on for {len(differ)} devices" if len(differ) > 1 else ""
    return [
        f"the file puts {first.id} on NUMA node {first.numa}, the kernel on {own.numa}{more}:"
        " CPUs and memory are bound by the kernel's word"
    ]


def _masks(file: Topology, host: Topology) -> list[str]:
    own = {node.number: node.cpus for node in host.numa}
    return [
        f"the file gives NUMA node {node.number} the CPUs {format_list(node.cpus)}, the kernel"
        f" {format_list(own[node.number])}: the kernel's count"
        for node in file.numa
        if node.cpus and own.get(node.number) and node.cpus != own[node.number]
    ]
