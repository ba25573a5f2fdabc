"""Which of the ports that could carry a job's traffic are there for it, and which for storage or management."""

from __future__ import annotations

from collections import Counter

from elaunch.topology.distance import Distances
from elaunch.topology.level import Level
from elaunch.topology.machine import LinkLayer, Port, Topology
from elaunch.topology.role import Decision, Role, is_fabric


def far(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """Ports that no device has near, where others share a switch with one."""
    distances = Distances(topology)
    levels = {p.id: {d.id: distances.level(d, p) for d in topology.devices} for p in ports}
    near = [p for p in ports if any(way <= Level.PXB for way in levels[p.id].values())]
    if not near:
        return {}
    served = {d.id for d in topology.devices if any(levels[p.id][d.id] <= Level.PXB for p in near)}
    # A device whose own socket has no port on a switch still has the others of that socket.
    left = [d for d in topology.devices if d.id not in served]
    nodes = {d.numa for d in topology.devices if d.numa is not None}
    beside = f"{len(near)} port{'s share' if len(near) > 1 else ' shares'} a switch with one"
    found: dict[str, Decision] = {}
    for port in ports:
        if port in near or any(levels[port.id][d.id] <= Level.NODE for d in left):
            continue
        best = min(levels[port.id].values())
        if port.numa is not None and nodes and port.numa not in nodes:
            text = f"{port.id} is on NUMA node {port.numa}, where no device is; {beside}"
            found[port.id] = Role.MANAGEMENT, "no_device_on_node", text
        else:
            text = f"{port.id} is {best.name} to its nearest device, and {beside}"
            found[port.id] = Role.STORAGE, "far", text
    return found


def other_link_layer(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """One job speaks one link layer: that of the most bandwidth, InfiniBand where that is equal or not known."""
    fabric = [p for p in ports if is_fabric(p) and p.link_layer is not LinkLayer.UNKNOWN]
    layers = {p.link_layer for p in fabric}
    if len(layers) < 2:
        return {}
    rates = _rates(topology, fabric)
    known = len(rates) == len(fabric)
    weights: Counter[LinkLayer] = Counter()
    for port in fabric:
        weights[port.link_layer] += round(rates[port.id]) if known else 1
    chosen = max(layers, key=lambda layer: (weights[layer], layer is LinkLayer.INFINIBAND, layer.value))
    count = sum(p.link_layer is chosen for p in fabric)
    text = "{} is {}, and the compute ports ({}) are {}"
    return {
        p.id: (Role.STORAGE, "link_layer", text.format(p.id, p.link_layer.value, count, chosen.value))
        for p in fabric
        if p.link_layer is not chosen
    }


def slower_model(topology: Topology, ports: list[Port]) -> dict[str, Decision]:
    """A slower adapter of another model is there for something else; one of the same model is degraded, and is kept.

    So are all where the slower ones carry more together: they are the many, and the fast one is for something else.
    """
    model = Distances(topology).model
    rates = _rates(topology, ports)
    most = max(rates.values(), default=0.0)
    fast = {model(p) for p in ports if rates.get(p.id, 0.0) * 2 > most}
    found: dict[str, Decision] = {}
    for port in ports:
        rate, (_, _, hardware) = rates.get(port.id), model(port)
        another = model(port) not in fast if hardware else not is_fabric(port)
        if rate is not None and rate * 2 <= most and another:
            text = f"{port.id} runs at {rate:g} Gbit/s and is another adapter than those of {most:g} Gbit/s"
            found[port.id] = Role.STORAGE if port.rdma else Role.MANAGEMENT, "slower", text
    carried = sum(rates[p.id] for p in ports if p.id in found)
    return found if carried <= sum(rates[p.id] for p in ports if p.id in rates and model(p) in fast) else {}


def _rates(topology: Topology, ports: list[Port]) -> dict[str, float]:
    """Gbit/s where known; of a port that is down, that of its like."""
    distances = Distances(topology)
    return {p.id: rate for p in ports if (rate := distances.nominal_rate(p))}
