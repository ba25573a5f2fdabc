"""Rails: the ports of all nodes that stand in the same place, and so hang on the same switch of the network."""

from __future__ import annotations

from elaunch.topology import pci
from elaunch.topology.machine import Port
from elaunch.topology.naming import ordered


def number(ports: list[Port], wanted: int | None = None) -> dict[str, int]:
    """The rail of each of these compute ports by ``Port.id``: its place in the order of PCI addresses, so that equal
    machines number them equally, whatever order they were found in and whatever is down.

    ``wanted`` is how many there are; without it the ports of each card are one. Fewer rails than cards: cards next to
    each other share one. More: the ports of a card are told apart.
    """
    places: dict[str, int] = {}
    everything = ordered(ports)
    for port in everything:
        places.setdefault(_card(port), len(places))
    cards, count = len(places), wanted or len(places)
    if count <= cards:
        return {p.id: places[_card(p)] * count // cards for p in everything}
    return {p.id: n * min(count, len(everything)) // len(everything) for n, p in enumerate(everything)}


def _card(port: Port) -> str:
    return pci.card(port.pci) if port.pci else port.nic
