"""One number that is equal for equal machines, and where two machines differ.

Both come from the same facts, so that digests are equal exactly where no difference is told. Left out is what belongs
to one host alone (UUIDs, GUIDs, IP addresses, names of interfaces), what passes (the state of links, the speed that an
idle PCI link has fallen to), and the order in which things were found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from elaunch.topology.cpus import format_list
from elaunch.topology.distance import Distances
from elaunch.topology.machine import Device, PciFunction, Port, Topology
from elaunch.topology.naming import ordered
from elaunch.topology.pci_tree import PciTree

Facts = dict[tuple[str, str], str]
"""By thing (``device 0000:1b:00.0``) and property."""


def digest(topology: Topology) -> str:
    """32 hexadecimal digits, the same in every process and release that knows the same facts."""
    listed = sorted([*key, value] for key, value in facts(topology).items())
    return hashlib.sha256(json.dumps(listed, ensure_ascii=True).encode()).hexdigest()[:32]


def differences(a: Topology, b: Topology) -> tuple[str, ...]:
    """A sentence for each fact in which ``b`` is not as ``a``; none where their digests are equal."""
    here, there = facts(a), facts(b)
    things = {"a": {t for t, _ in here}, "b": {t for t, _ in there}}
    said: list[str] = []
    for thing in sorted(things["a"] | things["b"]):
        if thing not in things["b"]:
            said.append(f"{thing} is missing{_described(here, thing)}")
        elif thing not in things["a"]:
            said.append(f"{thing} is there as well{_described(there, thing)}")
        else:
            said.extend(_changed(here, there, thing))
    return tuple(said)


def _changed(here: Facts, there: Facts, thing: str) -> Iterator[str]:
    for name in sorted({n for t, n in (*here, *there) if t == thing}):
        old, new = here.get((thing, name), ""), there.get((thing, name), "")
        if old != new:
            yield f"{thing}: {name} is {new or 'not known'} instead of {old or 'not known'}"


def _described(facts: Facts, thing: str) -> str:
    told = ", ".join(
        v for (t, n), v in sorted(facts.items()) if t == thing and n in ("model", "link layer", "rate") and v
    )
    return f" ({told})" if told else ""


def facts(topology: Topology) -> Facts:
    """What the digest is made of."""
    found: Facts = {}
    names = {d.id: f"device {d.pci or d.id}" for d in topology.devices}
    ports = _port_names(topology)
    pci = PciTree(topology)
    for device in topology.devices:
        found.update(_of_device(device, names))
        found[names[device.id], "place"] = _way_up(device.pci, pci)
    distances = Distances(topology)
    for port in topology.ports:
        if not port.software:
            found.update(_of_port(port, ports[port.id], distances))
            found[ports[port.id], "place"] = _way_up(port.pci, pci)
    for node in topology.numa:
        found[f"NUMA node {node.number}", "CPUs"] = format_list(node.cpus) or "none"
    for told in topology.levels:
        if told.device in names and told.port in ports:
            found[names[told.device], f"distance to {ports[told.port]}"] = told.level.name
    return found


def _of_device(device: Device, names: dict[str, str]) -> Iterator[tuple[tuple[str, str], str]]:
    name = names[device.id]
    yield (name, "model"), f"{device.vendor} {device.model}".strip()
    yield (name, "NUMA node"), _number(device.numa)
    yield (name, "CPUs"), format_list(device.cpus) if device.cpus is not None else ""
    for peer in device.peers:
        yield (name, f"{peer.kind} to {names.get(peer.device, peer.device)}"), str(peer.count)


def _of_port(port: Port, name: str, distances: Distances) -> Iterator[tuple[tuple[str, str], str]]:
    rate = distances.nominal_rate(port)
    yield (name, "link layer"), port.link_layer.value
    yield (name, "rate"), f"{rate:g} Gbit/s" if rate else ""
    yield (name, "NUMA node"), _number(port.numa)


def _way_up(address: str, pci: PciTree) -> str:
    """The bridges above, nearest first, with their hardware and lanes; whatever else hangs on PCI does not matter."""
    own = pci.functions.get(address)
    if own is None:
        return ""
    steps = [_hardware(own), *(f"{bridge.address} {_hardware(bridge)}" for bridge in pci.bridges(address))]
    return " below ".join(filter(None, (*steps, pci.root(address))))


def _hardware(function: PciFunction) -> str:
    lanes = f" x{function.width}" if function.width else ""
    return f"{function.vendor or 0:04x}:{function.device or 0:04x}{lanes}"


def _port_names(topology: Topology) -> dict[str, str]:
    """By PCI address: names are given in the order in which drivers find adapters, which differs between boots. Ports
    with the same address are told apart by their place among these."""
    beside: dict[tuple[str, bool], list[Port]] = {}
    for port in ordered(topology.ports):
        beside.setdefault((port.pci or port.id, port.rdma), []).append(port)
    return {
        port.id: f"{'port' if rdma else 'interface'} {place}" + (f" number {n}" if len(ports) > 1 else "")
        for (place, rdma), ports in beside.items()
        for n, port in enumerate(ports, 1)
    }


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
