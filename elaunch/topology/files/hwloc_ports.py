"""Network interfaces and RDMA devices in hwloc's XML, as ports."""

from __future__ import annotations

import re

from elaunch.topology.files import kinds
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import name
from elaunch.topology.machine import PciFunction, Port, PortState

_NETWORK, _OPENFABRICS = "network", "openfabrics"
_KINDS = {"2": {_NETWORK}, "3": {_OPENFABRICS}, "16": {_NETWORK}, "32": {_OPENFABRICS}, "48": {_OPENFABRICS}}
"""By osdev_type: numbers up to version 2, and bits from 3 on, where an RDMA device has that of the network too."""
_STATE = re.compile(r"Port([0-9]{1,3})State")
_STATES = {"1": PortState.DOWN, "2": PortState.INIT, "3": PortState.INIT, "4": PortState.ACTIVE}
_MOST_PORTS = 16
_GUID = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}")


def is_port(element: Element) -> bool:
    return bool(_kind(element))


def ports(element: Element, function: PciFunction) -> list[Port]:
    """The ports of a NIC: those of its RDMA devices with the interfaces on them, else each interface."""
    own = [child for child in element.all("object") if child.get("type") == "OSDev"]
    interfaces = [child for child in own if _kind(child) == _NETWORK]
    devices = [child for child in own if _kind(child) == _OPENFABRICS]
    if not devices:
        return [_interface(child, function, function.numa) for child in interfaces]
    found = []
    for place, device in enumerate(devices):
        found += _rdma(device, interfaces if place == 0 else [], function)
    return found


def lone_port(element: Element, numa: int | None) -> Port:
    """An interface or RDMA device that no PCI function stands behind."""
    if _kind(element) == _NETWORK:
        return _interface(element, None, numa)
    label = name(element.get("name"), element.line)
    return Port(nic=label, numa=numa, link_layer=kinds.link_layer(label), software=True)


def _interface(element: Element, function: PciFunction | None, numa: int | None) -> Port:
    label = name(element.get("name"), element.line)
    return Port(
        nic=label,
        rdma=False,
        pci=function.address if function else "",
        numa=numa,
        interfaces=(label,),
        link_layer=kinds.link_layer(label, function),
        virtual_function=function is not None and kinds.is_virtual_function(function),
        software=kinds.is_software(label),
    )


def _rdma(element: Element, interfaces: list[Element], function: PciFunction) -> list[Port]:
    label = name(element.get("name"), element.line)
    infos = _infos(element)
    states = {int(match[1]): state for key, state in infos.items() if (match := _STATE.fullmatch(key))}
    numbers = sorted(states)[:_MOST_PORTS] or [1]
    guid = infos.get("NodeGUID", "")
    on = _by_port(interfaces, numbers)
    return [
        Port(
            nic=label,
            number=number,
            pci=function.address,
            numa=function.numa,
            interfaces=tuple(on.get(number, ())),
            link_layer=kinds.link_layer(label, function),
            state=_STATES.get(states.get(number, ""), PortState.UNKNOWN),
            guid=guid.lower() if _GUID.fullmatch(guid) else "",
            virtual_function=kinds.is_virtual_function(function),
        )
        for number in numbers
    ]


def _by_port(interfaces: list[Element], numbers: list[int]) -> dict[int, list[str]]:
    """The interfaces on each port: where they say that they are, else on the first."""
    found: dict[int, list[str]] = {}
    for interface in interfaces:
        said = _infos(interface).get("Port", "")
        number = next((number for number in numbers if said == str(number)), numbers[0])
        found.setdefault(number, []).append(name(interface.get("name"), interface.line))
    return found


def _kind(element: Element) -> str:
    return next(iter(_KINDS.get(element.get("osdev_type"), ())), "")


def _infos(element: Element) -> dict[str, str]:
    return {info.get("name"): info.get("value") for info in element.all("info")}
