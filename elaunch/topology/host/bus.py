"""The PCI tree, from where sysfs puts each function: bus numbers of bridges may overlap, and are not looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from elaunch.topology import pci
from elaunch.topology.cpus import CpuSet, parse_list, parse_mask
from elaunch.topology.host.numa import node_of
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import NumaNode, PciFunction

_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) GT/s")
_DEEPEST = 32  # bridges above each other

FALLEN = 63
"""The link width of a function that answers no more: all bits of the register are ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function is: its own folder, the bridge above it, the host bridge."""

    address: str
    parent: str
    root: str
    path: str


@dataclass(frozen=True, slots=True)
class Identity:
    """What a function says it is."""

    class_code: int | None = None
    vendor: int | None = None
    device: int | None = None
    driver: str = ""


def chain(path: str) -> list[Place]:
    """The functions on a path below ``sys/devices``, from the host bridge down.

    The host bridge is the outermost: a volume management device (VMD) has one of its own below it, which is none of
    the processor's. A folder of a hypervisor's bus (``LNXSYSTM:00/.../VMBUS:00``) may stand above.
    """
    found: list[Place] = []
    root = parent = ""
    parts = path.split("/")
    for count, part in enumerate(parts, 1):
        if ":" not in part:
            continue
        if not root and _ROOT.fullmatch(part):
            root = part.lower()
        elif _ADDRESS.fullmatch(part):
            address = pci.address(part)
            found.append(Place(address, parent, root, "/".join(parts[:count])))
            parent = address
    return found


class Bus:
    """All functions of a tree by address; only those that are asked for are read in full."""

    def __init__(self, tree: Tree, nodes: tuple[NumaNode, ...]) -> None:
        self._tree = tree
        self._nodes = nodes
        self._places: dict[str, Place] = {}
        self._identities: dict[str, Identity] = {}
        self._functions: dict[str, PciFunction] = {}
        names = tree.names("sys/bus/pci/devices")
        for name in names:
            self._add(f"sys/bus/pci/devices/{name}", name)
        if not names:
            for name in tree.names("sys/devices"):
                if _ROOT.fullmatch(name):
                    self._walk(f"sys/devices/{name}", _DEEPEST)

    def _add(self, path: str, name: str) -> None:
        to = self._tree.target(path)
        if to is not None:
            self.at(to)
        elif _ADDRESS.fullmatch(name):  # a folder, in a captured tree: its place is not known
            address = pci.address(name)
            self._places.setdefault(address, Place(address, "", "", path))

    def _walk(self, folder: str, deepest: int) -> None:
        for name in self._tree.names(folder) if deepest else ():
            if _ADDRESS.fullmatch(name):
                self.at(f"{folder}/{name}")
                self._walk(f"{folder}/{name}", deepest - 1)

    def at(self, path: str) -> str:
        """The address of the innermost function on a path, which is known from now on. Empty: there is none."""
        places = chain(path)
        for place in places:
            known = self._places.get(place.address)
            if known is None or (place.root and not known.root):
                self._places[place.address] = place
        return places[-1].address if places else ""

    def addresses(self) -> list[str]:
        return sorted(self._places, key=pci.order)

    def __contains__(self, address: str) -> bool:
        return address in self._places

    def path(self, address: str) -> str:
        return self._places[address].path

    def identity(self, address: str) -> Identity:
        known = self._identities.get(address)
        if known is None:
            known = self._identities[address] = _identity(self._tree, self._places[address].path)
        return known

    def with_bridges(self, addresses: Iterable[str]) -> list[str]:
        """These and all bridges above them, in order."""
        found: set[str] = set()
        for address in addresses:
            while address and address not in found:
                found.add(address)
                address = self._places[address].parent
        return sorted(found, key=pci.order)

    def function(self, address: str) -> PciFunction:
        known = self._functions.get(address)
        if known is None:
            known = self._functions[address] = self._read(address)
        return known

    def _read(self, address: str) -> PciFunction:
        place, identity = self._places[address], self.identity(address)
        physical = self._tree.target(f"{place.path}/physfn")
        return PciFunction(
            address=address,
            parent=place.parent,
            root=place.root,
            numa=self._numa(address),
            class_code=identity.class_code,
            vendor=identity.vendor,
            device=identity.device,
            speed=self._speed(place.path),
            width=self._tree.number(f"{place.path}/current_link_width"),
            physical=(chain(physical) or [place])[-1].address if physical else "",
        )

    def _speed(self, path: str) -> float | None:
        """What the link can do, as NCCL asks too: an idle GPU lowers the present speed to save power."""
        for name in ("max_link_speed", "current_link_speed"):
            if told := _SPEED.match(self._tree.text(f"{path}/{name}") or ""):
                return float(told[1])
        return None

    def _numa(self, address: str) -> int | None:
        """-1, as in most virtual machines, is the kernel's word for "not known". Without a word, the CPUs tell."""
        told = self._tree.number(f"{self._places[address].path}/numa_node")
        if told is None:
            return node_of(self._nodes, self.near(address))
        return told if told >= 0 else None

    def near(self, address: str) -> CpuSet | None:
        """The CPUs that the kernel calls local to a function."""
        path = self._places[address].path
        for name, parse in (("local_cpulist", parse_list), ("local_cpus", parse_mask)):
            told = self._tree.text(f"{path}/{name}")
            try:
                if told:
                    return parse(told)
            except ValueError:
                continue
        return None


def _identity(tree: Tree, path: str) -> Identity:
    """From ``uevent``, which tells all in one read; from the single files where a captured tree has only these."""
    lines = (tree.text(f"{path}/uevent") or "").splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    vendor, _, device = told.get("PCI_ID", "").partition(":")
    return Identity(
        class_code=_first(_hex(told.get("PCI_CLASS")), tree, f"{path}/class"),
        vendor=_first(_hex(vendor), tree, f"{path}/vendor"),
        device=_first(_hex(device), tree, f"{path}/device"),
        driver=told.get("DRIVER", "") or (tree.target(f"{path}/driver") or "").rpartition("/")[2],
    )


def _first(told: int | None, tree: Tree, path: str) -> int | None:
    return told if told is not None else tree.number(path)


def _hex(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"[0-9a-fA-F]{1,8}", text) else None
