"""What is known of a machine by itself: versions, load, topology. Imports no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import elaunch
from elaunch.topology.digest import digest
from elaunch.topology.host.discovery import HOST, discover
from elaunch.topology.rails import number
from elaunch.topology.role import Role
from elaunch.topology.roles import roles


def versions() -> dict[str, str]:
    return {"elaunch": elaunch.__version__, "python": platform.python_version(), "kernel": platform.release()}


def machine() -> dict[str, Any]:
    """``load`` is the load average of the last minute: times of a machine that is busy say little."""
    cores = len(os.sched_getaffinity(0))
    return {"host": os.uname().nodename, "cores": cores, "load": round(os.getloadavg()[0], 2)}


def free_memory() -> int | None:
    """Bytes that can be had without swapping; None where the kernel does not tell."""
    try:
        with open("/proc/meminfo") as file:
            told = [line.split() for line in file if line.startswith("MemAvailable:")]
        return int(told[0][1]) << 10
    except (OSError, IndexError, ValueError):
        return None


def node(environ: Mapping[str, str]) -> dict[str, Any]:
    """All of it, of this host: an entry of the report's topology."""
    return {**topology(environ), **{name: machine()[name] for name in ("cores", "load")}, "versions": versions()}


def topology(environ: Mapping[str, str]) -> dict[str, Any]:
    """This host's devices and ports, as ``elaunch topo`` knows them. Compute ports have a rail."""
    found = discover(HOST)
    assigned = {one.port.id: one.role for one in roles(found)}
    rails = number([port for port in found.ports if assigned[port.id] is Role.COMPUTE])
    ports = [
        {
            "port": port.id,
            "link_layer": port.link_layer.value,
            "state": port.state.value,
            "gbit": port.rate,
            "numa": port.numa,
            "software": port.software,
            "role": assigned[port.id].value,
            "rail": rails.get(port.id),
            "interfaces": list(port.interfaces),
        }
        for port in found.ports
    ]
    devices = [{"device": device.id, "model": device.model, "numa": device.numa} for device in found.devices]
    numa = [{"node": node.number, "cpus": len(tuple(node.cpus))} for node in found.numa]
    return {
        "host": environ.get("ELAUNCH_HOST") or os.uname().nodename,
        "digest": digest(found),
        "ports": ports,
        "devices": devices,
        "numa": numa,
        "notes": list(found.notes),
    }
