"""Sets of CPUs and NUMA nodes in hwloc's XML, and the node that an object is near to."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.errors import TopologyError
from elaunch.topology.cpus import MOST, CpuSet, parse_mask
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import defect, quoted
from elaunch.topology.machine import NumaNode

_INFINITE = "0xf...f"
_MOST_NODES = 1024


def cpus_of(element: Element, attribute: str) -> CpuSet:
    """The set in an attribute; empty where it is missing, or without an end (``0xf...f``: hwloc's for all)."""
    text = element.get(attribute)
    if not text or text.startswith(_INFINITE):
        return ()
    try:
        return parse_mask(text)
    except ValueError as error:
        raise TopologyError(f"line {element.line}: {attribute}: {error}") from error


def numa_nodes(machine: Element) -> list[NumaNode]:
    """The NUMA nodes; of a machine that has none (version 1 without NUMA), one with all its CPUs."""
    nodes: dict[int, NumaNode] = {}
    count = 0
    for element in _objects(machine):
        if element.get("type") == "NUMANode":
            number = element.get("os_index")
            if not number.isdecimal() or not number.isascii() or len(number) > 6:
                raise defect(element.line, f"os_index of a NUMA node is {quoted(number)}", "expected a number")
            if len(nodes) >= _MOST_NODES:
                raise defect(element.line, f"found over {_MOST_NODES} NUMA nodes", "expected those of one machine")
            cpus = cpus_of(element, "cpuset")
            count += len(cpus)
            if count > 2 * MOST:
                raise defect(element.line, f"found over {2 * MOST} CPUs in all", "expected those of one machine")
            nodes.setdefault(int(number), NumaNode(int(number), cpus))
    return sorted(nodes.values(), key=lambda node: node.number) or [NumaNode(0, cpus_of(machine, "cpuset"))]


def tells_place(element: Element) -> bool:
    return bool(element.get("nodeset") or element.get("cpuset"))


class Places:
    """The one NUMA node that an object is within, None where it spans several.

    Nodes without CPUs do not count: on some machines a device's memory is a node beside that of the processor.
    """

    def __init__(self, nodes: list[NumaNode]) -> None:
        self._owners = {cpu: node.number for node in nodes for cpu in node.cpus}
        self._peopled = {node.number for node in nodes if node.cpus}
        self._numbers = {node.number for node in nodes}
        self._known: dict[int, int | None] = {}

    def node(self, element: Element | None) -> int | None:
        if element is None:
            return None
        key = id(element)
        if key not in self._known:
            self._known[key] = self._find(element)
        return self._known[key]

    def _find(self, element: Element) -> int | None:
        told = self._numbers.intersection(cpus_of(element, "nodeset"))
        near = told & self._peopled or told
        if not told:
            near = {self._owners[cpu] for cpu in cpus_of(element, "cpuset") if cpu in self._owners}
        return near.pop() if len(near) == 1 else None


def _objects(element: Element) -> Iterator[Element]:
    yield element
    for child in element.all("object"):
        yield from _objects(child)
