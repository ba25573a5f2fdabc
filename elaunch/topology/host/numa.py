"""NUMA nodes and their CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from elaunch.topology.cpus import CpuSet, parse_list, parse_mask
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import NumaNode

_NODES = "sys/devices/system/node"
_NODE = re.compile(r"node([0-9]{1,5})")


def read_nodes(tree: Tree, memories: Iterable[int] = ()) -> tuple[NumaNode, ...]:
    """The nodes, those without CPUs too: the memory of a GPU (``memories``, as its driver says) may be one.

    A kernel without NUMA has no folder of nodes: all its CPUs are one node then.
    """
    found = {int(match[1]): _cpus(tree, match[0]) for match in map(_NODE.fullmatch, tree.names(_NODES)) if match}
    if not found:
        online = _list(tree.text("sys/devices/system/cpu/online"))
        return (NumaNode(0, online),) if online else ()
    for number in memories:
        found.setdefault(number, ())
    return tuple(NumaNode(number, cpus) for number, cpus in sorted(found.items()))


def node_of(nodes: Iterable[NumaNode], cpus: CpuSet | None) -> int | None:
    """The node that holds all of ``cpus``; None where several do together, or none."""
    holding = [node.number for node in nodes if cpus and set(cpus) <= set(node.cpus)]
    return holding[0] if len(holding) == 1 else None


def _cpus(tree: Tree, name: str) -> CpuSet:
    told = tree.text(f"{_NODES}/{name}/cpulist")
    if told is not None:
        return _list(told)
    try:
        return parse_mask(tree.text(f"{_NODES}/{name}/cpumap") or "0")
    except ValueError:
        return ()


def _list(told: str | None) -> CpuSet:
    try:
        return parse_list(told or "")
    except ValueError:
        return ()
