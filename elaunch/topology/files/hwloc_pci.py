"""Bridges and functions of the PCI tree in hwloc's XML."""

from __future__ import annotations

import re

from elaunch.topology import pci
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import defect, quoted
from elaunch.topology.machine import PciFunction

_TYPE = re.compile(r"([0-9a-fA-F]{4}) \[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\].*", re.DOTALL)
_BUSES = re.compile(r"([0-9a-fA-F]{4,8}):\[([0-9a-fA-F]{2})-[0-9a-fA-F]{2}\]")
_RATE = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?")
_LANES = (16, 8, 4, 2, 1)
_SPEEDS = ((2.5, 0.25), (5.0, 0.5), (8.0, 8 / 8.125), (16.0, 16 / 8.125), (32.0, 32 / 8.125), (64.0, 63 / 8.125))
"""GT/s and what hwloc reckons a lane to carry, in GB/s."""


def function(element: Element, parent: str, root: str, numa: int | None) -> PciFunction:
    """The function that a PCIDev or a PCI bridge is. Raises TopologyError for an address that is none."""
    text = element.get("pci_busid")
    try:
        address = pci.address(text)
    except ValueError as error:
        raise defect(element.line, f"pci_busid is {quoted(text)}", "expected one like 0000:3b:00.0") from error
    ids = _TYPE.fullmatch(element.get("pci_type"))
    kind, vendor, device = (int(part, 16) for part in ids.groups()) if ids else (None, None, None)
    speed, width = _link(element.get("pci_link_speed"))
    code = None if kind is None else kind << 8  # hwloc leaves the programming interface out
    return PciFunction(address, parent, root, numa, code, vendor, device, speed, width)


def host_bridge(element: Element) -> str:
    """The name of a host bridge: that of its first bus in sysfs, ``pci0000:15``."""
    buses = _BUSES.fullmatch(element.get("bridge_pci"))
    return f"pci{int(buses[1], 16):04x}:{int(buses[2], 16):02x}" if buses else f"bridge{element.line}"


def _link(text: str) -> tuple[float | None, int | None]:
    """Speed and width of a link from its GB/s, which is all that hwloc tells: the widest link that carries as much."""
    rate = float(text) if _RATE.fullmatch(text) else 0.0
    for lanes in _LANES:
        for speed, carried in _SPEEDS:
            if abs(lanes * carried - rate) < 0.02 * rate:
                return speed, lanes
    return None, None
