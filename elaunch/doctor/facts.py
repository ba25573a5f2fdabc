"""What is known of a host. Values only; None where it cannot be found out."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.topology.binding import NodeBinding
from elaunch.topology.machine import Topology
from elaunch.topology.probe.netlink import Link


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of this process's user; None: there is none. ``soft`` holds, and may be raised up to ``hard``."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True)
class WrongWay:
    """Traffic from the address of ``interface`` to its own subnet leaves by ``egress``."""

    interface: str
    address: str
    egress: str


@dataclass(frozen=True, slots=True)
class Host:
    """A host.

    ``resolved`` are the addresses of its own name, ``unresolved`` why it has none. ``shm`` and ``shm_free`` are the
    bytes of /dev/shm. ``cpus`` are the CPUs that this process may use, ``cpus_online`` those that the host has,
    ``cpu_quota`` the CPUs' time that its cgroup gives. ``clock_synchronised`` is the kernel's word. ``binding`` is what
    the ranks would be given, ``no_route`` why there is no way to other nodes. ``nvidia``: its driver is loaded;
    ``peermem``: the module that lets NICs reach the memory of GPUs; ``dmabuf``: the kernel can do that itself.
    """

    name: str
    resolved: tuple[str, ...] = ()
    unresolved: str = ""
    links: tuple[Link, ...] | None = None
    wrong_ways: tuple[WrongWay, ...] = ()
    strict_arp: bool | None = None
    topology: Topology | None = None
    binding: NodeBinding | None = None
    no_route: str = ""
    shm: int | None = None
    shm_free: int | None = None
    open_files: Limit | None = None
    locked_memory: Limit | None = None
    cpus: int | None = None
    cpus_online: int | None = None
    cpu_quota: float | None = None
    clock_synchronised: bool | None = None
    nvidia: bool = False
    peermem: bool = False
    dmabuf: bool = False
    persistence: bool | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong, and what to do about it. ``severity`` is error, warning or info."""

    code: str
    severity: str
    text: str
    advice: str = ""
