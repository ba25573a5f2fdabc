"""Network interfaces, as ``/sys/class/net`` tells of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import LinkLayer, PortState

_NET = "sys/class/net"
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:vf|sf)[0-9]+")
_LAYERS = {1: LinkLayer.ETHERNET, 32: LinkLayer.INFINIBAND}  # ARPHRD_ETHER, ARPHRD_INFINIBAND
_STATES = {
    "up": PortState.ACTIVE,
    "down": PortState.DOWN,
    "lowerlayerdown": PortState.DOWN,
    "notpresent": PortState.DOWN,
    "dormant": PortState.INIT,  # up, and it waits for its authentication
    "testing": PortState.INIT,
}
_MOST_SPEED = 100_000_000  # Mbit/s; a driver that does not know says 4294967295


@dataclass(frozen=True, slots=True)
class Interface:
    """``holder`` is the folder of the device behind it, empty where there is none, and ``index`` which of its ports.

    ``lowers`` are the interfaces that it rests on: of a bond, a VLAN, a bridge.
    """

    name: str
    path: str
    holder: str
    index: int = 0
    mtu: int | None = None
    master: str = ""
    bond: bool = False
    lowers: tuple[str, ...] = ()
    bridge: bool = False


def read_interfaces(tree: Tree) -> dict[str, Interface]:
    found = {name: made for name in tree.names(_NET) if (made := _interface(tree, name)) is not None}
    members: dict[str, list[str]] = {}
    for interface in found.values():
        members.setdefault(interface.master, []).append(interface.name)
    return {name: _with_lowers(tree, interface, members.get(name, [])) for name, interface in found.items()}


def _interface(tree: Tree, name: str) -> Interface | None:
    path = tree.target(f"{_NET}/{name}")
    if path is None:
        path = f"{_NET}/{name}"
        if not tree.has(f"{path}/ifindex") and not tree.has(f"{path}/type"):
            return None  # a file: bonding_masters
        holder = tree.target(f"{path}/device") or ""
    else:
        holder = "" if "/virtual/" in path else path.rpartition("/net/")[0]
    return Interface(
        name=name,
        path=path,
        holder=holder,
        index=tree.number(f"{path}/dev_port") or tree.number(f"{path}/dev_id") or 0,
        mtu=tree.number(f"{path}/mtu"),
        master=(tree.target(f"{path}/master") or "").rpartition("/")[2],
    )


def _with_lowers(tree: Tree, interface: Interface, members: list[str]) -> Interface:
    """What an interface without a device rests on; one with a device rests on that."""
    if interface.holder:
        return interface
    path = interface.path
    inside = set(tree.names(path))
    slaves = (tree.text(f"{path}/bonding/slaves") or "").split() if "bonding" in inside else []
    lowers = {name.removeprefix("lower_") for name in inside if name.startswith("lower_")}
    return Interface(
        interface.name,
        path,
        holder="",
        mtu=interface.mtu,
        master=interface.master,
        bond="bonding" in inside,
        lowers=tuple(sorted({*slaves, *members, *lowers})),
        bridge="bridge" in inside,
    )


def is_representor(tree: Tree, interface: Interface) -> bool:
    """Whether it stands for a virtual function in the card's switch: packets to it go to that, not to the wire."""
    return _REPRESENTOR.fullmatch(tree.text(f"{interface.path}/phys_port_name") or "") is not None


def hardware(interfaces: Mapping[str, Interface], name: str) -> list[Interface]:
    """The interfaces with a device that ``name`` rests on, itself where it has one. A bridge leads to no one wire."""
    found: list[Interface] = []
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        interface = interfaces.get(waiting.pop())
        if interface is None or interface.name in seen or interface.bridge:
            continue
        seen.add(interface.name)
        if interface.holder:
            found.append(interface)
        waiting.extend(interface.lowers)
    return sorted(found, key=lambda each: each.name)


def state_of(tree: Tree, interface: Interface) -> PortState:
    """From ``operstate``; a driver that keeps none says ``unknown``, and its carrier tells."""
    told = _STATES.get(tree.text(f"{interface.path}/operstate") or "")
    if told is not None:
        return told
    carrier = tree.number(f"{interface.path}/carrier")
    return {0: PortState.DOWN, 1: PortState.ACTIVE}.get(-1 if carrier is None else carrier, PortState.UNKNOWN)


def rate_of(tree: Tree, interface: Interface) -> float | None:
    """Gbit/s; None where the driver does not know, as virtio's."""
    told = tree.number(f"{interface.path}/speed")
    return told / 1000 if told is not None and 0 < told < _MOST_SPEED else None


def link_layer_of(tree: Tree, interface: Interface) -> LinkLayer:
    return _LAYERS.get(tree.number(f"{interface.path}/type") or 0, LinkLayer.UNKNOWN)
