"""The ``<net>`` of an NCCL file: the ports of a NIC, or interfaces that no PCI device stands behind."""

from __future__ import annotations

import re

from elaunch.topology.files import kinds
from elaunch.topology.files.markup import Element
from elaunch.topology.files.nccl_fields import integer
from elaunch.topology.files.wording import name
from elaunch.topology.machine import PciFunction, Port

_FASTEST = 10_000.0
"""Gbit/s: no port is faster, a rate beyond is in another unit than the Mbit/s that NCCL takes it for."""
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")


def ports(nets: list[Element], function: PciFunction | None, numa: int | None, notes: list[str]) -> list[Port]:
    """The ports of one NIC, or of the interfaces directly below a NUMA node (``function`` None)."""
    return [_port(net, place, function, numa, notes) for place, net in enumerate(sorted(nets, key=_order))]


def _port(net: Element, place: int, function: PciFunction | None, numa: int | None, notes: list[str]) -> Port:
    label = name(net.get("name"), net.line)
    said = integer(net, "port")
    rdma = said > 0 if said is not None else kinds.is_rdma(label)
    gdr = integer(net, "gdr")
    return Port(
        nic=label,
        number=_number(said, place),
        rdma=rdma,
        pci=function.address if function else "",
        numa=numa,
        interfaces=() if rdma else (label,),
        link_layer=kinds.link_layer(label, function),
        rate=_rate(net, label, notes),
        guid=_guid(net),
        virtual_function=function is not None and kinds.is_virtual_function(function),
        software=kinds.is_software(label),
        gdr=None if gdr is None else gdr > 0,
    )


def _number(said: int | None, place: int) -> int:
    """The port's number on its RDMA device.

    NCCL adds to it how many ports it found before on the same card, counting those of the card's other functions: the
    second function's ``mlx5_1`` is told as port 2 and is port 1 of that device.
    """
    if said is None or said < 1:
        return 1
    return said - place if said > place else said


def _order(net: Element) -> int:
    return integer(net, "dev") or 0


def _rate(net: Element, label: str, notes: list[str]) -> float | None:
    speed = integer(net, "speed")
    if speed is None or speed <= 0:
        return None
    rate = speed / 1000
    if rate > _FASTEST:
        notes.append(f"{label} says {speed} Mbit/s, which cannot be: its rate is taken as not known")
        return None
    return rate


def _guid(net: Element) -> str:
    text = net.get("guid")
    return text.lower() if _GUID.fullmatch(text) and int(text, 16) else ""
