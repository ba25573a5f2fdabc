"""A machine and what its ranks are given, as a document for machines."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.distance import Distances
from elaunch.topology.machine import Topology


def document(
    topology: Topology, binding: NodeBinding | None, digest: str, no_route: Exception | None = None
) -> dict[str, Any]:
    """``elaunch topo --json``: everything known of the machine, how far each port is from each device, the binding.

    ``no_route``: why there is none, where ports are to blame.
    """
    machine, distances = _plain(topology), Distances(topology)
    for port, described in zip(topology.ports, machine["ports"], strict=True):
        described["id"] = port.id
    return {
        **machine,
        "digest": digest,
        "distances": [
            {
                "device": device.id,
                "port": port.id,
                "level": distances.level(device, port).name,
                "bandwidth": distances.bandwidth(device, port),
            }
            for device in topology.devices
            for port in topology.ports
            if not port.software
        ],
        "binding": _binding(binding) if binding is not None else None,
        "no_route": str(no_route) if no_route is not None else None,
    }


def _binding(binding: NodeBinding) -> dict[str, Any]:
    return {
        "ranks": [_rank(rank) for rank in binding.ranks],
        "shared": [port.id for port in binding.shared],
        "left_out": [{"port": r.port.id, "code": r.code, "reason": r.text} for r in binding.refused],
        "warnings": list(binding.warnings),
    }


def _rank(rank: RankBinding) -> dict[str, Any]:
    return {
        "local_rank": rank.local_rank,
        "device": rank.device.id if rank.device else None,
        "uuid": rank.device.uuid if rank.device else None,
        "nics": [port.id for port in rank.ports],
        "level": rank.level.name if rank.level is not None else None,
        "rail": rank.rail,
        "numa": rank.numa,
        "cpus": rank.cpus,
        "memory": rank.memory,
        "why": [dataclasses.asdict(reason) for reason in rank.why],
    }


def _plain(value: Any) -> Any:
    """Dataclasses as mappings, enumerations by their words."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.IntEnum):
        return value.name
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (tuple, list)) else value
