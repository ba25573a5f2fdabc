"""In which order each device prefers ports: nearest first, and of equally near ones each device its own."""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.topology.distance import Distances
from elaunch.topology.machine import Device, Port, Topology
from elaunch.topology.naming import device_order, ordered

Tiers = tuple[tuple[Port, ...], ...]


def preferences(topology: Topology, distances: Distances, ports: Iterable[Port]) -> dict[str, Tiers]:
    """For each device (by id) ``ports`` in tiers, nearest first, each in the device's own order.

    Devices that have the same ports nearest part them as NCCL does for its first channel: two with two ports have one
    each, two with four two each, four with two alternate. The order is that of PCI addresses, and a port's state plays
    no part: so what one device prefers does not change when another's port is lost, and is the same whatever order
    things were found in.
    """
    devices = sorted(topology.devices, key=device_order)
    tiers = {d.id: distances.tiers(d, ports) for d in devices}
    sharing: dict[tuple[str, ...], list[Device]] = {}
    for device in devices:
        if tiers[device.id]:
            sharing.setdefault(tuple(p.id for p in tiers[device.id][0]), []).append(device)
    load: dict[str, int] = {}
    first: dict[str, tuple[Port, ...]] = {}
    for group in sharing.values():
        for place, device in enumerate(group):
            nearest = tiers[device.id][0]
            first[device.id] = _turned(nearest, _start(place, len(group), len(nearest)))
            for port in first[device.id][: max(1, len(nearest) // len(group))]:
                load[port.id] = load.get(port.id, 0) + 1
    return {
        d.id: (first[d.id], *(_least_used(tier, load, place) for tier in tiers[d.id][1:]))
        for place, d in enumerate(devices)
        if d.id in first
    }


def without_device(ports: Iterable[Port], local_rank: int) -> Tiers:
    """The order of a rank that has no device: each starts at another port."""
    everything = ordered(ports)
    return (_turned(everything, local_rank % len(everything)),) if everything else ()


def _start(place: int, devices: int, ports: int) -> int:
    return place * ports // devices if ports >= devices else place % ports


def _turned(ports: tuple[Port, ...], start: int) -> tuple[Port, ...]:
    return ports[start:] + ports[:start]


def _least_used(ports: tuple[Port, ...], load: dict[str, int], place: int) -> tuple[Port, ...]:
    """Those first that are nobody's own; among equals devices start at different ones."""
    return tuple(sorted(_turned(ports, place % len(ports)), key=lambda p: load.get(p.id, 0)))
