"""Gathers what is known of this host: reads, asks the kernel, changes nothing."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import platform
import re
import resource
import socket
from collections.abc import Sequence
from pathlib import Path

from elaunch.doctor.facts import Host, Limit, WrongWay
from elaunch.errors import NoRouteError
from elaunch.rendezvous.addresses import resolve
from elaunch.topology.binding import NodeBinding, Wishes
from elaunch.topology.machine import Topology
from elaunch.topology.policy import bind
from elaunch.topology.probe.candidates import candidates
from elaunch.topology.probe.netlink import Link, egress, links

_SHM = Path("/dev/shm")
_ARP = Path("/proc/sys/net/ipv4/conf")
_NVIDIA = Path("/proc/driver/nvidia/version")
_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_PERSISTENCE = Path("/var/run/nvidia-persistenced/socket")
_TIME_ERROR = 5  # of adjtimex: the clock is not synchronised
_DMABUF = (5, 12)  # the first kernel that has it


def gather(topology: Topology | None) -> Host:
    """All that is known; ``topology`` takes longest, and is the caller's to find out, as a lost device may hang it."""
    name = socket.gethostname()
    found, wrong = _links()
    binding, no_route = _binding(topology) if topology is not None else (None, "")
    shm, free = _shm()
    return Host(
        name=name,
        resolved=tuple(map(str, resolve(name))),
        links=found,
        wrong_ways=wrong,
        strict_arp=_strict_arp(),
        topology=topology,
        binding=binding,
        no_route=no_route,
        shm=shm,
        shm_free=free,
        open_files=_limit(resource.RLIMIT_NOFILE),
        locked_memory=_limit(resource.RLIMIT_MEMLOCK),
        cpus=len(os.sched_getaffinity(0)),
        cpus_online=os.cpu_count(),
        cpu_quota=_quota(),
        clock_synchronised=_synchronised(),
        nvidia=_NVIDIA.exists(),
        peermem=any(Path("/sys/module", module).exists() for module in _PEERMEM),
        dmabuf=_kernel() >= _DMABUF,
        persistence=_PERSISTENCE.exists() if _NVIDIA.exists() else None,
    )


def _links() -> tuple[tuple[Link, ...] | None, tuple[WrongWay, ...]]:
    try:
        found = links()
    except OSError:
        return None, ()
    return found, tuple(way for link in candidates(found) for way in _wrong_ways(link, found))


def _wrong_ways(link: Link, others: Sequence[Link]) -> list[WrongWay]:
    names = {other.index: other.name for other in others}
    wrong = []
    for address in link.addresses:
        own = ipaddress.ip_interface(address)
        neighbours = _neighbours(own)
        index = egress(neighbours[0], str(own.ip)) if neighbours else None
        if index is not None and index != link.index:
            wrong.append(WrongWay(link.name, str(own.ip), names.get(index, f"interface {index}")))
    return wrong


def _neighbours(own: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> list[str]:
    """Addresses that another host in its subnet may have."""
    found = (own.network[n] for n in (1, 2) if n < own.network.num_addresses - 1)
    return [str(address) for address in found if address != own.ip]


def _strict_arp() -> bool | None:
    try:
        return int((_ARP / "all/arp_ignore").read_text()) > 0
    except (OSError, ValueError):
        return None


def _binding(topology: Topology) -> tuple[NodeBinding | None, str]:
    try:
        return bind(topology, max(1, len(topology.devices)), Wishes()), ""
    except NoRouteError as error:
        return None, str(error)


def _shm() -> tuple[int | None, int | None]:
    try:
        told = os.statvfs(_SHM)
    except OSError:
        return None, None
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _limit(which: int) -> Limit:
    soft, hard = (None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(which))
    return Limit(soft, hard)


def _quota() -> float | None:
    """CPUs that the cgroup of this process gives time for, in either version; None where it does not limit it."""
    for path, form in (("/sys/fs/cgroup/cpu.max", "v2"), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "v1")):
        try:
            words = Path(path).read_text().split()
            if form == "v1":
                words.append(Path(path).with_name("cpu.cfs_period_us").read_text())
            quota, period = (float(word) for word in words)
        except (OSError, ValueError):  # "max", or another version
            continue
        if quota > 0 and period > 0:
            return quota / period
    return None


def _synchronised() -> bool | None:
    try:
        buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: asks, and sets nothing
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def _kernel() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(match[1]), int(match[2])) if match else (0, 0)
