"""The ``<gpu>`` of an NCCL file, and its direct links to others."""

from __future__ import annotations

import re

from elaunch.topology import pci, pci_ids
from elaunch.topology.files.markup import Element
from elaunch.topology.files.nccl_fields import integer
from elaunch.topology.files.wording import name
from elaunch.topology.machine import Device, PciFunction, Peer

LINKS = ("nvlink", "xgmi", "c2c")
_NOT_SAID = -1


def device(gpu: Element | None, function: PciFunction, notes: list[str]) -> Device:
    """The device at ``function``; without a ``<gpu>`` its index is left open, and its links are not known."""
    index = integer(gpu, "dev") if gpu else None
    return Device(
        id=function.address,
        index=_NOT_SAID if index is None else index,
        pci=function.address,
        vendor=pci_ids.maker(function.vendor) or (_maker(gpu) if gpu else ""),
        model=_model(gpu) if gpu else "",
        numa=function.numa,
        peers=_peers(gpu, function.address, notes) if gpu else (),
    )


def _maker(gpu: Element) -> str:
    if gpu.get("gcn") or gpu.all("xgmi"):
        return "AMD"
    return "NVIDIA" if gpu.all("nvlink") else ""


def _model(gpu: Element) -> str:
    """AMD's architecture: ``gfx942``, in old files ``908``."""
    found = re.fullmatch(r"(?:gfx)?([0-9a-f]{3,5})", gpu.get("gcn"))
    return f"gfx{found[1]}" if found else ""


def _peers(gpu: Element, own: str, notes: list[str]) -> tuple[Peer, ...]:
    counts: dict[tuple[str, str], int] = {}
    for link in gpu.children:
        if link.tag in LINKS:
            target = _target(link)
            if target == own:
                notes.append(f"{own} has a {link.tag} to itself, which cannot be: left aside")
                continue
            key = (target, link.tag)
            counts[key] = counts.get(key, 0) + max(1, integer(link, "count") or 1)
    return tuple(Peer(target, kind, count) for (target, kind), count in sorted(counts.items()))


def _target(link: Element) -> str:
    """The address at the other end: empty for the processor, and as it stands for what a guest does not see."""
    text = link.get("target")
    if not text:
        return ""
    try:
        return pci.address(text)
    except ValueError:
        return name(text, link.line)
