"""The text of ``nvidia-smi topo -m``: a machine seen from afar, by the driver's names and without a PCI tree.

It tells the distances themselves (``Topology.levels``), which GPUs are linked, and the CPUs and NUMA node near each. A
text that is cut gives what it holds; what is missing is in the notes.
"""

from __future__ import annotations

import re

from elaunch.errors import TopologyError
from elaunch.topology.cpus import CpuSet, cpu_set, parse_list
from elaunch.topology.files import kinds, smi_matrix
from elaunch.topology.files.assembly import assemble
from elaunch.topology.files.smi_matrix import CPUS, NUMA, Matrix
from elaunch.topology.files.wording import defect, quoted
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, NumaNode, Peer, Port, ToldLevel, Topology
from elaunch.topology.naming import listed

LARGEST = 4 << 20
"""Bytes; the matrix of the most devices that are accepted has half as many."""

_GPU = re.compile(r"GPU([0-9]{1,4})")
_NIC = re.compile(r"NIC[0-9]{1,4}")
_NVLINK = re.compile(r"NV([0-9]{1,4})", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:@+-]{0,63}")
_NOTHING = ("", "N/A")
_LEVELS = {level.name: level for level in Level if level is not Level.UNKNOWN} | {"SOC": Level.SYS}


def parse(data: bytes) -> Topology:
    """The machine that the text describes. Raises TopologyError where there is no matrix in it."""
    if len(data) > LARGEST:
        raise TopologyError(f"found more than {LARGEST >> 20} MiB of text; expected the matrix of nvidia-smi topo -m")
    text = data.decode("utf-8-sig", errors="replace")
    matrix = smi_matrix.find(text)
    if matrix is None:
        line, content = next(((n, s) for n, s in enumerate(text.splitlines(), 1) if s.strip()), (1, ""))
        expected = "expected NCCL or hwloc XML, or the text of nvidia-smi topo -m with its line of GPU names"
        raise defect(line, f"found {quoted(content.strip())}", expected)
    return _Meaning(matrix).topology()


class _Meaning:
    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._notes: list[str] = []
        self._unknown: list[str] = []
        self._contradictions: list[str] = []
        names = list(dict.fromkeys((*matrix.columns, *matrix.rows)))
        self._gpus = sorted((n for n in names if _GPU.fullmatch(n)), key=lambda n: int(n[3:]))
        self._nics = [n for n in names if not _GPU.fullmatch(n)]

    def topology(self) -> Topology:
        devices = [self._device(name) for name in self._gpus]
        ports = self._ports()
        levels = [
            ToldLevel(gpu, ports[nic].id, level)
            for gpu in self._gpus
            for nic in self._nics
            if (level := self._level(gpu, nic)) is not None
        ]
        self._note_gaps()
        return assemble("nvidia-smi", devices, ports.values(), numa=_nodes(devices), levels=levels, notes=self._notes)

    def _device(self, name: str) -> Device:
        row = self._matrix.rows.get(name)
        return Device(
            id=name,
            index=int(name[3:]),
            vendor="NVIDIA",
            numa=self._numa(name, row.tail[NUMA]) if row and NUMA in row.tail else None,
            cpus=self._cpus(name, row.tail[CPUS]) if row and CPUS in row.tail else None,
            peers=tuple(peer for other in self._gpus if (peer := self._peer(name, other))),
        )

    def _ports(self) -> dict[str, Port]:
        """By the names in the matrix, with those of the legend."""
        ports: dict[str, Port] = {}
        nameless = []
        for label in self._nics:
            name = self._matrix.legend.get(label, label)
            if not _NAME.fullmatch(name) or any(port.nic == name for port in ports.values()):
                name = label
            if _NIC.fullmatch(name):
                nameless.append(name)
            ports[label] = Port(nic=name, link_layer=kinds.link_layer(name))
        if nameless:
            self._notes.append(f"no legend names {listed(nameless)}")
        return ports

    def _words(self, one: str, other: str) -> list[str]:
        """What the row of each says of the other, as far as they are there; the first stands before the second."""
        rows = self._matrix.rows
        found = ((rows[a].cells.get(b, "") if a in rows else "") for a, b in ((one, other), (other, one)))
        return [word.upper() for word in found if word.upper() not in _NOTHING]

    def _level(self, gpu: str, nic: str) -> Level | None:
        words = self._words(gpu, nic)
        if not words:
            return None
        if len({_LEVELS.get(word, word) for word in words}) > 1:
            self._contradictions.append(f"{gpu} and {nic}")
        level = _LEVELS.get(words[0])
        if level is None:
            self._unknown.append(words[0])
        return Level.UNKNOWN if level is None else level

    def _peer(self, one: str, other: str) -> Peer | None:
        for word in self._words(one, other) if one != other else ():
            if found := _NVLINK.fullmatch(word):
                return Peer(other, "nvlink", int(found[1])) if int(found[1]) else None
            if word not in _LEVELS:
                self._unknown.append(word)
        return None

    def _cpus(self, name: str, text: str) -> CpuSet | None:
        """Empty where the container has none of the CPUs near the device."""
        if text == "N/A":
            return None
        try:
            return parse_list(text)
        except ValueError as error:
            self._notes.append(f"CPUs of {name}: {error}")
            return None

    def _numa(self, name: str, text: str) -> int | None:
        if text in _NOTHING:
            return None
        if not re.fullmatch(r"[0-9]{1,4}", text):
            self._notes.append(f"NUMA node of {name}: {quoted(text)} is not one number")
            return None
        return int(text)

    def _note_gaps(self) -> None:
        rows, columns = self._matrix.rows, self._matrix.columns
        if missing := [name for name in (*self._gpus, *self._nics) if name not in rows]:
            self._notes.append(f"the text has no row of {listed(missing)}")
        if short := [name for name, row in rows.items() if len(row.cells) < len(columns)]:
            self._notes.append(f"the rows of {listed(short)} are cut")
        if self._matrix.twice:
            self._notes.append(
                f"there is more than one row of {listed(list(dict.fromkeys(self._matrix.twice)))}; the first holds"
            )
        if self._contradictions:
            self._notes.append(f"rows contradict each other on {listed(self._contradictions)}; that of the GPU holds")
        if self._unknown:
            words = [quoted(word) for word in sorted(set(self._unknown))]
            self._notes.append(f"no known distance: {listed(words)}")


def _nodes(devices: list[Device]) -> list[NumaNode]:
    """The NUMA nodes that devices are near to, with the CPUs that are told for them."""
    cpus: dict[int, set[int]] = {}
    for device in devices:
        if device.numa is not None:
            cpus.setdefault(device.numa, set()).update(device.cpus or ())
    return [NumaNode(number, cpu_set(near)) for number, near in cpus.items()]
