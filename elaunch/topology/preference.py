"""In which order each device prefers ports: nearest first, and of equally near ones each device its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from elaunch.topology.distance import Distances
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import device_order, ordered

Tiers = tuple[tuple[Port, ...], ...]


def preferences(topology: Topology, distances: Distances, ports: Iterable[Port]) -> dict[str, Tiers]:
    """For each device (by id) ``ports`` in tiers, nearest first, each in the device's own order.

    Devices that have the same ports nearest part them as NCCL does for its first channel: two with two ports have one
    each, two with four two each, four with two alternate. Those that have none near take what is nobody's own. The
    order is that of PCI addresses, and a port's state plays no part: so what one device prefers does not change when
    another's port is lost, and is the same whatever order things were found in.
    """
    tiers = {d.id: distances.tiers(d, ports) for d in sorted(topology.devices, key=device_order)}
    tiers = {device: found for device, found in tiers.items() if found}
    level = {d.id: distances.level(d, tiers[d.id][0][0]) for d in topology.devices if d.id in tiers}
    waiting = Counter(_ids(found[0]) for found in tiers.values())
    load: Counter[str] = Counter()
    own: dict[str, list[Port]] = {}
    for device in sorted(tiers, key=lambda device: level[device]):  # stable: by address among equals
        nearest = tiers[device][0]
        free = [p for p in nearest if load[p.id] == min(load[q.id] for q in nearest)]
        own[device] = free[: max(1, len(free) // waiting[_ids(nearest)])]
        load.update(p.id for p in own[device])
        waiting[_ids(nearest)] -= 1
    return {
        device: (_beginning(own[device], found[0]), *(_least_used(tier, load, place) for tier in found[1:]))
        for place, (device, found) in enumerate(tiers.items())
    }


def without_device(ports: Iterable[Port], local_rank: int) -> Tiers:
    """The order of a rank that has no device: each starts at another port."""
    everything = ordered(ports)
    return (_turned(everything, local_rank % len(everything)),) if everything else ()


def _ids(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(p.id for p in ports)


def _beginning(own: list[Port], ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """``own``, then the others of ``ports`` as they follow."""
    turned = _turned(ports, ports.index(own[0]))
    return (*own, *(p for p in turned if p not in own))


def _turned(ports: tuple[Port, ...], start: int) -> tuple[Port, ...]:
    return ports[start:] + ports[:start]


def _least_used(ports: tuple[Port, ...], load: Counter[str], place: int) -> tuple[Port, ...]:
    """Those first that are nobody's own; among equals devices start at different ones."""
    return tuple(sorted(_turned(ports, place % len(ports)), key=lambda p: load[p.id]))
