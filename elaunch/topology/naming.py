"""How ports are put in order and found by name. Names match whole: ``mlx5_1`` is never ``mlx5_10``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from elaunch.topology import pci
from elaunch.topology.machine import Device, Port, Topology

Key = tuple[tuple[int, int, int, int], tuple[tuple[int, int, str], ...], int]
_LAST = (1 << 40, 0, 0, 0)
_PARTS = re.compile(r"[0-9]+|[^0-9]+")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """What ``text`` sorts by with its numbers taken as such: mlx5_2 before mlx5_10."""
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in _PARTS.findall(text))


def port_order(port: Port) -> Key:
    """PCI address, then name, then number: the order of ports, whatever order they were found in."""
    return pci.order(port.pci) if port.pci else _LAST, natural(port.nic), port.number


def device_order(device: Device) -> Key:
    """As ``port_order``; by id where there is no address."""
    return pci.order(device.pci) if device.pci else _LAST, natural(device.id), 0


def ordered(ports: Iterable[Port]) -> tuple[Port, ...]:
    return tuple(sorted(ports, key=port_order))


def names(port: Port) -> tuple[str, ...]:
    """Everything that ``port`` is called: its id, its NIC and its interfaces."""
    return tuple(dict.fromkeys((port.id, port.nic, *port.interfaces)))


def ports_named(topology: Topology, name: str) -> tuple[Port, ...]:
    """The ports that ``name`` stands for: one, all of a NIC, or none. NIC and id come before interfaces."""
    found = [p for p in topology.ports if name in (p.id, p.nic)]
    return ordered(found or (p for p in topology.ports if name in p.interfaces))


def device_named(topology: Topology, name: str) -> Device | None:
    """The device with this index, PCI address, UUID or id."""
    wanted = name.strip()
    try:
        address = pci.address(wanted)
    except ValueError:
        address = wanted
    for device in topology.devices:
        if wanted in (device.id, device.uuid) or (device.pci and address == device.pci):
            return device
    if wanted.isdigit():
        return next((d for d in topology.devices if d.index == int(wanted)), None)
    return None


def near(name: str, known: Iterable[str]) -> str:
    """``did you mean mlx5_1?`` or what there is, for the end of a sentence; empty where there is nothing."""
    everything = sorted(set(known), key=natural)
    close = difflib.get_close_matches(name, everything, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are {listed(everything)}" if everything else "there are none"


def listed(words: Iterable[str], most: int = 12) -> str:
    """``a, b, c and 5 more``."""
    everything = list(words)
    shown = ", ".join(everything[:most])
    return shown if len(everything) <= most else f"{shown} and {len(everything) - most} more"
