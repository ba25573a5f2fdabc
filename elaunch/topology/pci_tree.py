"""The PCI tree as NCCL sees it: switches, not bridges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from elaunch.topology.machine import PciFunction, Topology

Way = tuple[PciFunction, ...]
"""What stands above a device, nearest first."""

DEEPEST = 64
"""No tree has more bridges one above the other: whoever says so has them in a ring."""

_BROADCOM = ((0x1000, 0xC010), (0x1000, 0xC030))


class PciTree:
    """The ways from devices up to their host bridges, each worked out once."""

    def __init__(self, topology: Topology) -> None:
        self.functions = {f.address: f for f in topology.functions}
        self._bridges: dict[str, Way] = {}
        self._switches: dict[str, Way] = {}
        self._roots: dict[str, str] = {}

    def bridges(self, address: str) -> Way:
        """The bridges above ``address``; none where it is not known."""
        found = self._bridges.get(address)
        if found is None:
            chain: list[PciFunction] = []
            at = self.functions.get(address)
            while at is not None and at.parent and len(chain) < DEEPEST:
                at = self.functions.get(at.parent)
                if at is not None:
                    chain.append(at)
            found = self._bridges[address] = tuple(chain)
        return found

    def switches(self, address: str) -> Way:
        """The switches above ``address``, each once.

        Where the host bridge is known the tree is whole: above a device stands the downstream port of its switch (or a
        root port), above that the upstream port, which stands for the switch. NCCL's files hold only upstream ports.
        """
        found = self._switches.get(address)
        if found is None:
            bridges = self.bridges(address)
            found = self._switches[address] = _flattened(bridges[1::2] if self.root(address) else bridges)
        return found

    def root(self, address: str) -> str:
        """The host bridge above ``address``, empty where it is not known."""
        found = self._roots.get(address)
        if found is None:
            ways = (self.functions.get(address), *self.bridges(address))
            found = self._roots[address] = next((f.root for f in ways if f is not None and f.root), "")
        return found

    def numa(self, address: str) -> int | None:
        """The NUMA node that ``address`` or a bridge above it is on."""
        ways = (self.functions.get(address), *self.bridges(address))
        return next((f.numa for f in ways if f is not None and f.numa is not None), None)


def with_bridges(functions: Mapping[str, PciFunction], addresses: Iterable[str]) -> set[str]:
    """``addresses`` and those of all bridges above them that are among ``functions``."""
    found: set[str] = set()
    for address in addresses:
        while address in functions and address not in found:
            found.add(address)
            address = functions[address].parent
    return found


def first_shared(ours: Way, theirs: Way) -> tuple[int, int] | None:
    """Where two ways up meet, as places in each."""
    places = {f.address: n for n, f in enumerate(theirs)}
    return next(((n, places[f.address]) for n, f in enumerate(ours) if f.address in places), None)


def _flattened(switches: Way) -> Way:
    """Without the lower one of two Broadcom switches that are really one (PEX Gen4, PEX890xx)."""
    above = (*switches[1:], None)
    return tuple(lower for lower, upper in zip(switches, above, strict=False) if not _one_switch(lower, upper))


def _one_switch(lower: PciFunction, upper: PciFunction | None) -> bool:
    pair = (lower.vendor, lower.device)
    return upper is not None and pair in _BROADCOM and pair == (upper.vendor, upper.device)
