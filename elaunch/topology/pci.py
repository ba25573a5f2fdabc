"""PCI addresses and classes, as every source of topologies writes them: in its own way."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?")

BRIDGE = 0x0604
DISPLAY = 0x03
ACCELERATOR = 0x12
CO_PROCESSOR = 0x0B40
NETWORK = 0x02
INFINIBAND = 0x0207


def address(text: str) -> str:
    """``text`` in the form of sysfs: ``0000:3b:00.0``, lower case, a domain of four digits or as many as it needs.

    A missing domain is 0, a missing function 0. NVML's domains of eight digits lose their leading zeros. Raises
    ValueError.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()[:40]!r} is no PCI address (expected one like 0000:3b:00.0)")
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.{function or '0'}"


def order(text: str) -> tuple[int, int, int, int]:
    """What a canonical address sorts by: its numbers, so that domain 10000 stands after ffff."""
    domain, bus, rest = text.split(":")
    slot, function = rest.split(".")
    return int(domain, 16), int(bus, 16), int(slot, 16), int(function)


def card(text: str) -> str:
    """A canonical address without its function: the ports of one card have it in common."""
    return text.rpartition(".")[0]
