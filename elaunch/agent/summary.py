"""What a node's ranks are bound to, in one line for its log."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.cpus import CpuSet, format_list
from elaunch.topology.left_out import alike
from elaunch.topology.machine import Port

_TOLD = ("down", "init", "no_address", "excluded", "degraded", "unreachable")
"""Codes of ports that are left out though they are meant for the job."""

_MOST = 4


def summary(node: NodeBinding) -> str:
    """Ports, CPUs, and which ports are left out why; "" where nothing is bound."""
    parts = [_ports(node), _cpus(node.ranks)]
    unused = alike(refused for refused in node.refused if refused.code in _TOLD)
    if parts[0] and unused:
        more = f"; and {len(unused) - _MOST} more" if len(unused) > _MOST else ""
        parts.append(f"not used: {'; '.join(unused[:_MOST])}{more}")
    return "; ".join(filter(None, parts))


def not_allowed(ranks: Sequence[RankBinding], allowed: CpuSet) -> list[str]:
    """A sentence for ranks that are allowed on no CPU of theirs."""
    lost: dict[CpuSet, list[int]] = {}
    for rank in ranks:
        if rank.cpus is not None and not set(rank.cpus) & set(allowed):
            lost.setdefault(rank.cpus, []).append(rank.local_rank)
    return [
        f"local rank{'s' if len(numbers) > 1 else ''} {format_list(numbers)}: none of the CPUs {format_list(cpus)} is"
        f" allowed here, so all of {format_list(allowed)} are used"
        for cpus, numbers in lost.items()
    ]


def _ports(node: NodeBinding) -> str:
    if node.shared:
        return f"all ranks use {_names(node.shared)}"
    each = [f"{rank.local_rank}={_names(rank.ports)}" for rank in node.ranks if rank.ports]
    return f"ports by rank: {' '.join(each)}" if each else ""


def _names(ports: Sequence[Port]) -> str:
    return ",".join(port.id for port in ports)


def _cpus(ranks: Sequence[RankBinding]) -> str:
    each = [f"{rank.local_rank}={format_list(rank.cpus)}" for rank in ranks if rank.cpus is not None]
    return f"CPUs by rank: {' '.join(each)}" if each else ""
