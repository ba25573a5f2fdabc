"""RDMA devices and their ports, as ``/sys/class/infiniband`` and ``/sys/class/cxi`` tell of them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import LinkLayer, PortState

_CLASS = "sys/class/infiniband"
_CXI = "sys/class/cxi"
_VERBS, _NODES = "sys/class/infiniband_verbs", "dev/infiniband"
_MOST_GIDS = 256
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]+)?) Gb/sec\b")
_PORT = re.compile(r"[0-9]{1,3}")
_CXI_NAME = re.compile(r"cxi[0-9]+")
_LAYERS = {"InfiniBand": LinkLayer.INFINIBAND, "Ethernet": LinkLayer.ETHERNET}
_STATES = {
    "1: DOWN": PortState.DOWN,
    "2: INIT": PortState.INIT,
    "3: ARMED": PortState.INIT,
    "4: ACTIVE": PortState.ACTIVE,
    "5: ACTIVE_DEFER": PortState.INIT,
}
_PHYSICAL = {
    "1: Sleep": "Sleep",
    "2: Polling": "Polling",
    "3: Disabled": "Disabled",
    "4: PortConfigurationTraining": "PortConfigurationTraining",
    "5: LinkUp": "LinkUp",
    "6: LinkErrorRecovery": "LinkErrorRecovery",
    "7: Phy Test": "Phy Test",
}


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """``holder`` is the folder of the device behind it, empty where there is none (scif0, rxe0); None: not known.

    ``ports`` is how many the device has, ``netdev`` the interface that the port itself names. ``odd`` is what it tells
    that cannot be true, a sentence, else empty.
    """

    nic: str
    number: int
    ports: int
    holder: str | None
    link_layer: LinkLayer = LinkLayer.UNKNOWN
    state: PortState = PortState.UNKNOWN
    phys_state: str = ""
    rate: float | None = None
    guid: str = ""
    netdev: str = ""
    odd: str = ""


def read_rdma_ports(tree: Tree) -> Iterator[RdmaPort]:
    for nic in tree.names(_CLASS):
        path, holder = _place(tree, _CLASS, nic)
        numbers = sorted(int(name) for name in tree.names(f"{path}/ports") if _PORT.fullmatch(name)) or [1]
        guid = tree.text(f"{path}/node_guid") or ""
        parent = tree.text(f"{path}/parent") or "" if holder == "" else ""  # of rxe0: the interface that it rides on
        for number in numbers:
            yield _port(tree, RdmaPort(nic, number, len(numbers), holder, guid=_guid(guid), netdev=parent), path)
    for nic in tree.names(_CXI):
        if _CXI_NAME.fullmatch(nic):
            yield RdmaPort(nic, 1, 1, _place(tree, _CXI, nic)[1], LinkLayer.SLINGSHOT)


def without_node(tree: Tree) -> dict[str, str]:
    """By RDMA device the node under ``/dev`` that it lacks: a container shows every device in sysfs, and has the nodes
    of those that it was given. Where the tree has no ``/dev`` at all nothing is missed."""
    names = [name for name in tree.names(_VERBS) if name.startswith("uverbs")] if tree.names("dev") else []
    lacking = [name for name in names if not tree.has(f"{_NODES}/{name}")]
    return {nic: name for name in lacking if (nic := tree.text(f"{_VERBS}/{name}/ibdev"))}


def gid_addresses(tree: Tree, nic: str, number: int) -> tuple[str, ...] | None:
    """The IP addresses of a RoCE port's table of GIDs: those of every interface on it, be it a VLAN, a bridge, or a
    macvlan, and in a container those of the container alone. None where there is no table."""
    folder = f"{_place(tree, _CLASS, nic)[0]}/ports/{number}/gids"
    found: dict[str, None] = {}
    for name in (names := tree.names(folder)[:_MOST_GIDS]):
        try:
            gid = ipaddress.IPv6Address(tree.text(f"{folder}/{name}") or "")
        except ValueError:
            continue
        if int(gid):
            found[str(gid.ipv4_mapped or gid)] = None
    return tuple(sorted(found, key=lambda text: (":" in text, text.startswith("fe80:")))) if names else None


def _place(tree: Tree, kind: str, nic: str) -> tuple[str, str | None]:
    """The folder of a device of a class, and that of what is behind it."""
    path = tree.target(f"{kind}/{nic}")
    if path is None:  # a folder, in a captured tree
        return f"{kind}/{nic}", tree.target(f"{kind}/{nic}/device")
    if "/virtual/" in path:
        return path, ""
    return path, path.rpartition(f"/{kind.rpartition('/')[2]}/")[0] or tree.target(f"{path}/device") or ""


def _port(tree: Tree, bare: RdmaPort, device: str) -> RdmaPort:
    path = f"{device}/ports/{bare.number}"
    state, physical = tree.text(f"{path}/state"), tree.text(f"{path}/phys_state")
    rate = _RATE.match(tree.text(f"{path}/rate") or "")
    layer = _LAYERS.get(tree.text(f"{path}/link_layer") or "", LinkLayer.UNKNOWN)
    netdev = "" if layer is LinkLayer.INFINIBAND else tree.text(f"{path}/gid_attrs/ndevs/0")
    return RdmaPort(
        bare.nic,
        bare.number,
        bare.ports,
        bare.holder,
        layer,
        _STATES.get(state or "", PortState.UNKNOWN),
        _PHYSICAL.get(physical or "", ""),
        float(rate[1]) if rate else None,
        bare.guid,
        netdev or bare.netdev,
        _odd(bare, state, physical),
    )


def _odd(port: RdmaPort, state: str | None, physical: str | None) -> str:
    told = [("state", state, frozenset(_STATES)), ("phys_state", physical, frozenset(_PHYSICAL))]
    bad = [f"{name} {text[:40]!r}" for name, text, known in told if text and text not in known]
    return f"{port.nic}:{port.number} tells a {' and a '.join(bad)} that no port has: not known" if bad else ""


def _guid(text: str) -> str:
    return text.lower() if text.strip("0:") else ""
