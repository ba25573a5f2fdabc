"""How far a port is from a device, and how much the way between them carries, by NCCL's rules.

The rules are those of NCCL's ``src/graph`` (``topo.cc``, ``paths.cc``): the two ports of a PCI switch count as one
node; Broadcom's switches, which show themselves as two levels, are one (``getBcmGen``); a way past one switch is PIX,
past several PXB; of several ports those with the highest bandwidth are near, of these those at the nearest level, and
ties are kept. The number of hops never decides: it gives a DGX A100 the wrong map.

Where this differs: NCCL knows no NODE, and takes a NUMA node for one host bridge. It takes Broadcom's switches for one
only under Broadcom's own subsystem ids, which ``Topology`` does not hold; server makers put theirs on the same chips.
"""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.topology import pci
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, LinkLayer, PciFunction, Port, Topology
from elaunch.topology.naming import ordered
from elaunch.topology.pci_tree import PciTree, first_shared

BETWEEN_NODES = 16.0
"""GB/s between NUMA nodes. NCCL takes 10 for Skylake, 16 for EPYC, 22 and more for newer Xeons; no source tells the
processor in a way that all share, and the middle one gives NCCL's choices on all captured machines."""

_PER_LANE = {2.5: 1.5, 5.0: 3.0}

Model = tuple[LinkLayer, bool, tuple[int | None, int] | None]


class Distances:
    """All distances of one machine, with what they share worked out once."""

    def __init__(self, topology: Topology) -> None:
        self._tree = PciTree(topology)
        self._told = {(t.device, t.port): t.level for t in topology.levels}
        self._nodes = len([n for n in topology.numa if n.cpus]) or len(topology.numa)
        self._highest: dict[Model, float] = {}
        for port in topology.ports:
            if port.rate and port.up:
                model = self.model(port)
                self._highest[model] = max(port.rate, self._highest.get(model, 0.0))

    def level(self, device: Device, port: Port) -> Level:
        """What the way between the two crosses; UNKNOWN where the source does not tell."""
        told = self._told.get((device.id, port.id))
        if told is not None:
            return told
        if device.pci and port.pci:
            if pci.card(device.pci) == pci.card(port.pci):
                return Level.LOC
            inside = self._below_host_bridge(device.pci, port.pci)
            if inside is not None:
                return inside
        return self._above_host_bridge(device, port)

    def bandwidth(self, device: Device, port: Port) -> float | None:
        """GB/s of the way from ``device`` onto the wire: the least of its PCI links, of the link between NUMA nodes,
        and of the port's own rate. None: nothing of it is known."""
        return self._bandwidth(device, port, self.level(device, port))

    def _bandwidth(self, device: Device, port: Port, way: Level) -> float | None:
        links = [_link(f) for f in self._way(device.pci, port.pci)] if way is not Level.LOC else []
        known = [link for link in links if link is not None]
        if way is Level.SYS and known:
            known.append(BETWEEN_NODES)
        rate = self.nominal_rate(port)
        if rate:
            known.append(rate / 8)
        return round(min(known), 3) if known else None

    def tiers(self, device: Device, ports: Iterable[Port]) -> list[tuple[Port, ...]]:
        """``ports`` in groups, the nearest first; NCCL would choose among those of the first: highest bandwidth, then
        nearest level. Where the bandwidth of one of them is not known, the levels alone decide."""
        everything = ordered(ports)
        levels = [self.level(device, p) for p in everything]
        carried = [self._bandwidth(device, p, way) for p, way in zip(everything, levels, strict=True)]
        comparable = None not in carried
        groups: dict[tuple[float, Level], list[Port]] = {}
        for port, way, most in zip(everything, levels, carried, strict=True):
            groups.setdefault((-(most or 0.0) if comparable else 0.0, way), []).append(port)
        return [tuple(groups[key]) for key in sorted(groups)]

    def nominal_rate(self, port: Port) -> float | None:
        """Gbit/s. A port that is down tells a rate that means nothing: it counts as its like that are up, if any."""
        return port.rate if port.up else self._highest.get(self.model(port), port.rate)

    def model(self, port: Port) -> Model:
        """What ports have in common that should run alike; without the PCI device only what they speak."""
        function = self._tree.functions.get(port.pci)
        hardware = (function.vendor, function.device) if function and function.device is not None else None
        return port.link_layer, port.rdma, hardware

    def _below_host_bridge(self, one: str, other: str) -> Level | None:
        shared = first_shared(self._tree.switches(one), self._tree.switches(other))
        if shared is None:  # perhaps below one root port, without a switch in between
            shared = first_shared(self._tree.bridges(one), self._tree.bridges(other))
        if shared is None:
            return None
        return Level.PIX if shared == (0, 0) else Level.PXB

    def _above_host_bridge(self, device: Device, port: Port) -> Level:
        root, other = self._tree.root(device.pci), self._tree.root(port.pci)
        if root and root == other:
            return Level.PHB
        beside = Level.NODE if root and other else Level.PHB
        here = self._tree.numa(device.pci) if device.numa is None else device.numa
        there = self._tree.numa(port.pci) if port.numa is None else port.numa
        if here is not None and there is not None:
            return beside if here == there else Level.SYS
        # With one NUMA node there is no other that it could be on. With several, SYS would be a claim that warnings
        # are built on; so it stays unknown, which sorts last.
        return beside if self._nodes == 1 else Level.UNKNOWN

    def _way(self, one: str, other: str) -> list[PciFunction]:
        """What has a link on the way: both ends, and the switches below the one that they share."""
        ours, theirs = self._tree.switches(one), self._tree.switches(other)
        shared = first_shared(ours, theirs) or (len(ours), len(theirs))
        ends = [self._tree.functions[a] for a in (one, other) if a in self._tree.functions]
        return [*ends, *ours[: shared[0]], *theirs[: shared[1]]]


def _link(function: PciFunction) -> float | None:
    """GB/s; None where the claim is missing or cannot be true: no lanes, or one slow lane, as hypervisors say."""
    speed, width = function.speed, function.width
    if not speed or not width or (speed <= 2.5 and width <= 1):
        return None
    return _PER_LANE.get(speed, speed * 0.75) * width / 8
