"""How far a port is from a device, and how much the way between them carries, by NCCL's rules.

The rules are those of NCCL's ``src/graph`` (``topo.cc``, ``paths.cc``): the two ports of a PCI switch count as one
node; Broadcom's switches, which show themselves as two levels, are one (``getBcmGen``); a way past one switch is PIX,
past several PXB; of several ports those with the highest bandwidth are near, of these those at the nearest level, and
ties are kept. The number of hops never decides: it gives a DGX A100 the wrong map.

Where this differs: NCCL knows no NODE, and takes a NUMA node for one host bridge.
"""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.topology import pci
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, PciFunction, Port, PortState, Topology
from elaunch.topology.naming import ordered

BETWEEN_NODES = 16.0
"""GB/s between NUMA nodes. NCCL takes 10 for Skylake, 16 for EPYC, 22 and more for newer Xeons; no source tells the
processor in a way that all share, and the middle one gives NCCL's choices on all captured machines."""

_PER_LANE = {2.5: 1.5, 5.0: 3.0}
_BROADCOM = ((0x1000, 0xC010), (0x1000, 0xC030))


def level(topology: Topology, device: Device, port: Port) -> Level:
    """What the way between the two crosses; UNKNOWN where the source does not tell."""
    return Distances(topology).level(device, port)


def bandwidth(topology: Topology, device: Device, port: Port) -> float | None:
    """GB/s of the way from ``device`` onto the wire: the least of its PCI links, of the link between NUMA nodes, and of
    the port's own rate. None: nothing of it is known."""
    return Distances(topology).bandwidth(device, port)


def nearest(topology: Topology, device: Device, ports: Iterable[Port]) -> tuple[Port, ...]:
    """Those of ``ports`` that NCCL would choose among for ``device``: highest bandwidth, then nearest level."""
    return next(iter(Distances(topology).tiers(device, ports)), ())


class Distances:
    """All distances of one machine, with what they share worked out once."""

    def __init__(self, topology: Topology) -> None:
        self._functions = {f.address: f for f in topology.functions}
        self._told = {(t.device, t.port): t.level for t in topology.levels}
        self._nodes = len([n for n in topology.numa if n.cpus]) or len(topology.numa)
        self._bridges: dict[str, tuple[PciFunction, ...]] = {}
        self._switches: dict[str, tuple[PciFunction, ...]] = {}
        self._ceiling = _nominal_rates(topology, self._functions)

    def level(self, device: Device, port: Port) -> Level:
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
        way = self.level(device, port)
        links = [self._link(f) for f in self._way(device.pci, port.pci)] if way is not Level.LOC else []
        known = [link for link in links if link is not None]
        if way is Level.SYS and known:
            known.append(BETWEEN_NODES)
        rate = self.nominal_rate(port)
        if rate:
            known.append(rate / 8)
        return round(min(known), 3) if known else None

    def tiers(self, device: Device, ports: Iterable[Port]) -> list[tuple[Port, ...]]:
        """``ports`` in groups, the nearest first; those of one group are equally near. Where the bandwidth of one of
        them is not known, the levels alone decide."""
        everything = ordered(ports)
        measured = {p.id: self.bandwidth(device, p) for p in everything}
        comparable = all(b is not None for b in measured.values())
        groups: dict[tuple[float, Level], list[Port]] = {}
        for port in everything:
            carried = measured[port.id] if comparable else 0.0
            groups.setdefault((-(carried or 0.0), self.level(device, port)), []).append(port)
        return [tuple(groups[key]) for key in sorted(groups)]

    def _below_host_bridge(self, one: str, other: str) -> Level | None:
        ours, theirs = self._switches_of(one), self._switches_of(other)
        shared = _first_shared(ours, theirs)
        if shared is not None:
            return Level.PIX if shared == (0, 0) else Level.PXB
        raw = _first_shared(self._bridges_of(one), self._bridges_of(other))
        if raw is not None:  # below one root port without a switch in between
            return Level.PIX if raw == (0, 0) else Level.PXB
        return None

    def _above_host_bridge(self, device: Device, port: Port) -> Level:
        root, other = self._root(device.pci), self._root(port.pci)
        if root and root == other:
            return Level.PHB
        beside = Level.NODE if root and other else Level.PHB
        here, there = self._numa(device.pci, device.numa), self._numa(port.pci, port.numa)
        if here is not None and there is not None:
            return beside if here == there else Level.SYS
        # With one NUMA node there is no other that it could be on. With several, SYS would be a claim that warnings
        # are built on; so it stays unknown, which sorts last.
        return beside if self._nodes == 1 else Level.UNKNOWN

    def _way(self, one: str, other: str) -> list[PciFunction]:
        """What has a link on the way: both ends, and the switches below the one that they share."""
        ours, theirs = self._switches_of(one), self._switches_of(other)
        shared = _first_shared(ours, theirs) or (len(ours), len(theirs))
        ends = [self._functions[a] for a in (one, other) if a in self._functions]
        return [*ends, *ours[: shared[0]], *theirs[: shared[1]]]

    def _link(self, function: PciFunction) -> float | None:
        """GB/s; None where the claim is missing or cannot be true: no lanes, or one slow lane, as hypervisors say."""
        speed, width = function.speed, function.width
        if not speed or not width or (speed <= 2.5 and width <= 1):
            return None
        return _PER_LANE.get(speed, speed * 0.75) * width / 8

    def nominal_rate(self, port: Port) -> float | None:
        """Gbit/s. A port that is down tells a rate that means nothing: it counts as its like that are up, if any."""
        if port.state not in (PortState.DOWN, PortState.INIT):
            return port.rate
        return self._ceiling.get(_model(port, self._functions), port.rate)

    def _bridges_of(self, address: str) -> tuple[PciFunction, ...]:
        found = self._bridges.get(address)
        if found is None:
            chain: list[PciFunction] = []
            at = self._functions.get(address)
            while at is not None and at.parent and at.parent != at.address and len(chain) < 64:
                at = self._functions.get(at.parent)
                if at is not None:
                    chain.append(at)
            found = self._bridges[address] = tuple(chain)
        return found

    def _switches_of(self, address: str) -> tuple[PciFunction, ...]:
        found = self._switches.get(address)
        if found is None:
            bridges = self._bridges_of(address)
            # Where the host bridge is known the tree is whole: above a device stands the downstream port of its switch
            # (or the root port), above that the upstream port, which stands for the switch. NCCL's files hold only
            # the upstream ports.
            whole = bool(self._root(address))
            found = self._switches[address] = _flattened(bridges[1::2] if whole else bridges)
        return found

    def _root(self, address: str) -> str:
        function = self._functions.get(address)
        if function is None or function.root:
            return function.root if function else ""
        bridges = self._bridges_of(address)
        return bridges[-1].root if bridges else ""

    def _numa(self, address: str, told: int | None) -> int | None:
        if told is not None:
            return told
        chain = (self._functions.get(address), *self._bridges_of(address))
        return next((f.numa for f in chain if f is not None and f.numa is not None), None)


def _first_shared(ours: tuple[PciFunction, ...], theirs: tuple[PciFunction, ...]) -> tuple[int, int] | None:
    """Where two ways up meet, as places in each."""
    places = {f.address: n for n, f in enumerate(theirs)}
    return next(((n, places[f.address]) for n, f in enumerate(ours) if f.address in places), None)


def _flattened(switches: tuple[PciFunction, ...]) -> tuple[PciFunction, ...]:
    """Without the lower one of two Broadcom switches that are really one (PEX Gen4, PEX890xx)."""
    kept: list[PciFunction] = []
    for place, switch in enumerate(switches):
        above = switches[place + 1] if place + 1 < len(switches) else None
        if above is None or not _one_switch(switch, above):
            kept.append(switch)
    return tuple(kept)


def _one_switch(lower: PciFunction, upper: PciFunction) -> bool:
    pair = (upper.vendor, upper.device)
    return pair in _BROADCOM and pair == (lower.vendor, lower.device)


def _model(port: Port, functions: dict[str, PciFunction]) -> tuple[object, ...]:
    function = functions.get(port.pci)
    if function is None or function.device is None:
        return (port.link_layer, port.driver)
    return (port.link_layer, function.vendor, function.device)


def _nominal_rates(topology: Topology, functions: dict[str, PciFunction]) -> dict[tuple[object, ...], float]:
    """The highest rate of the ports of one model that are up."""
    rates: dict[tuple[object, ...], float] = {}
    for port in topology.ports:
        if port.rate and port.state not in (PortState.DOWN, PortState.INIT):
            key = _model(port, functions)
            rates[key] = max(port.rate, rates.get(key, 0.0))
    return rates
