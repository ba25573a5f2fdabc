"""NVIDIA's GPUs as their driver tells of them under ``/proc``, without its library."""

from __future__ import annotations

import re

from elaunch.topology import pci
from elaunch.topology.host.told import Told
from elaunch.topology.host.tree import Tree

_GPUS = "proc/driver/nvidia/gpus"
_NODE = re.compile(r"nvidia[0-9]+")


def read_driver(tree: Tree) -> list[Told] | None:
    """In the order of PCI addresses, which is NVML's; None where there is no driver."""
    if not tree.has(_GPUS):
        return None
    nodes = [name for name in tree.names("dev") if _NODE.fullmatch(name)]
    found = [told for name in tree.names(_GPUS) if (told := _gpu(tree, name, nodes)) is not None]
    return sorted(found, key=lambda told: pci.order(told.address))


def _gpu(tree: Tree, name: str, nodes: list[str]) -> Told | None:
    try:
        address = pci.address(name)
    except ValueError:
        return None
    told = _fields(tree.text(f"{_GPUS}/{name}/information"))
    memory = _fields(tree.text(f"{_GPUS}/{name}/numa_status")).get("Node", "")
    uuid = told.get("GPU UUID", "")
    return Told(
        address,
        uuid="" if "?" in uuid else uuid,  # as long as nothing has opened the GPU
        model=told.get("Model", ""),
        hidden=_hidden(told, nodes),
        memory=int(memory) if memory.isdecimal() and len(memory) < 6 else None,
    )


def _hidden(told: dict[str, str], nodes: list[str]) -> str:
    """A container shows every GPU here, and has device nodes only of those that it was given."""
    minor = told.get("Device Minor", "")
    if told.get("GPU Excluded") == "Yes":
        return "its driver excludes it"
    return f"there is no /dev/nvidia{minor}" if nodes and minor and f"nvidia{minor}" not in nodes else ""


def _fields(text: str | None) -> dict[str, str]:
    pairs = (line.partition(":") for line in (text or "").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
