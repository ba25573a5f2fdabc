"""A machine and what its ranks are given, as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.cli.table import plain, table
from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.cpus import format_list
from elaunch.topology.machine import Topology
from elaunch.topology.tree import Branch, tree

_NONE = "-"
_NICS_SHOWN = 4


def machine(topology: Topology, binding: NodeBinding | None, origin: str, digest: str) -> str:
    """All of ``elaunch topo``; ``binding`` None: no rank was asked for. ``origin``: the file, empty for this host."""
    parts = [_headline(topology, origin, digest)]
    if binding is not None and binding.ranks:
        parts.append(ranks(binding))
    if binding is not None and binding.shared:
        parts.append("every rank may use " + ", ".join(port.id for port in binding.shared))
    if binding is not None and binding.refused:
        rows = [("LEFT OUT", "INTERFACES", "REASON")]
        rows += [(r.port.id, ",".join(r.port.interfaces) or _NONE, r.text) for r in binding.refused]
        parts.append(table(rows))
    parts.append(drawn(tree(topology)))
    told = [*(binding.warnings if binding else ()), *topology.notes]
    parts += ["\n".join(f"note: {text}" for text in told)] if told else []
    return plain("\n\n".join(parts))


def _headline(topology: Topology, origin: str, digest: str) -> str:
    hardware = [port for port in topology.ports if not port.software]
    counted = (
        _count(len(topology.devices), "device"),
        _count(len(hardware), "port"),
        _count(len(topology.numa), "NUMA node"),
    )
    where = origin or "this machine's sysfs"
    return f"{where}: {', '.join(counted)}; digest {digest[:12]}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number or 'no'} {word}s"


def ranks(binding: NodeBinding) -> str:
    """One row for each rank, why it is so in the last column."""
    rows: list[Sequence[str]] = [("RANK", "DEVICE", "NICS", "LEVEL", "RAIL", "NUMA", "CPUS", "WHY")]
    rows += [_row(rank) for rank in binding.ranks]
    return table(rows, ">")


def _row(rank: RankBinding) -> Sequence[str]:
    device = f"{rank.device.id} {rank.device.model}".rstrip() if rank.device else _NONE
    return (
        str(rank.local_rank),
        device,
        _few([port.id for port in rank.ports]) or _NONE,
        rank.level.name if rank.level is not None else _NONE,
        _number(rank.rail),
        _number(rank.numa),
        format_list(rank.cpus) if rank.cpus is not None else "all",
        "; ".join(reason.text for reason in rank.why),
    )


def _few(names: Sequence[str]) -> str:
    """The first of many; the document has all."""
    more = len(names) - _NICS_SHOWN
    return ",".join(names[:_NICS_SHOWN]) + (f" +{more}" if more > 0 else "")


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)


def drawn(branch: Branch) -> str:
    """The tree with lines, a branch to a line."""
    return "\n".join(_lines(branch, "", ""))


def _lines(branch: Branch, lead: str, below: str) -> list[str]:
    lines = [lead + branch.name + (f" ({branch.detail})" if branch.detail else "")]
    for number, child in enumerate(branch.children, start=1):
        last = number == len(branch.children)
        lines += _lines(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
    return lines
