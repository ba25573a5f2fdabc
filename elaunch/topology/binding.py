"""What each rank of a node is bound to, and why. Values only; ``policy.bind`` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.topology.cpus import CpuSet
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, Port

NIC_POLICIES = ("auto", "local", "all")
"""Words of ``--nic-policy``; anything else is a map."""

CPU_BINDINGS = ("none", "numa", "core")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator asks for; the defaults are those of the command line.

    ``nic_policy``: ``auto`` (all healthy compute ports to every rank, nearest first; nothing where one node needs no
    network), ``local`` (only the ports nearest to the rank's device), ``all``, or a map ``0=mlx5_0,mlx5_1;1=mlx5_2``.
    ``nic_map``: by local rank or device id, from ``--nic-map``; it comes first of all. ``rails``: how many there are,
    None: as many as the ports show. ``exclude`` are names of NICs, ports or interfaces. ``avoid``: ports that a
    degraded link took out, with the reason. ``unreachable``: ports that a probe found to lead nowhere, with the reason.
    ``cpu_bind``: ``none``, ``numa``, ``core``. ``device_map``: devices by local rank (index, PCI address or UUID).
    ``bandwidth``: what a rank should have, in Gbit/s, None: not asked.
    """

    nic_policy: str = "auto"
    nic_map: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rails: int | None = None
    nics_per_rank: int | None = None
    exclude: tuple[str, ...] = ()
    avoid: tuple[tuple[str, str], ...] = ()
    unreachable: tuple[tuple[str, str], ...] = ()
    cpu_bind: str = "none"
    device_map: tuple[str, ...] = ()
    bandwidth: float | None = None
    network: bool = True
    """Whether ranks of other nodes are to be reached at all."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is as it is: ``about`` is device, nics, rail, numa or cpus, ``code`` for machines, ``text`` a
    sentence."""

    about: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A port that no rank gets, and why.

    ``code`` says what it is for (``PortRole.code``: ``far``, ``bond_member``, ...), what is wrong with it now
    (``down``, ``no_address``, ``excluded``, ...), or that others were chosen (``not_chosen``).
    """

    port: Port
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class RankBinding:
    """What one rank is given.

    ``ports`` in the order of preference. ``level`` is the distance to the first. ``cpus`` None: all that are allowed.
    ``memory`` is the NUMA node to prefer for memory, None: as the kernel does.
    """

    local_rank: int
    device: Device | None = None
    ports: tuple[Port, ...] = ()
    level: Level | None = None
    rail: int | None = None
    numa: int | None = None
    cpus: CpuSet | None = None
    memory: int | None = None
    why: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeBinding:
    """All ranks of a node. ``shared``: the ports that every rank lists, in one order (NCCL then chooses by channel);
    empty where each rank has a list of its own. ``warnings`` are sentences with figures."""

    ranks: tuple[RankBinding, ...] = ()
    shared: tuple[Port, ...] = ()
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()
