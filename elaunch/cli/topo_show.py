"""A machine and what its ranks are given, as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from elaunch.cli.table import few, plain, table
from elaunch.topology.binding import NodeBinding, RankBinding, Refused
from elaunch.topology.cpus import format_list
from elaunch.topology.left_out import predicate
from elaunch.topology.machine import Topology
from elaunch.topology.tree import Branch, tree

_NONE = "-"
_NICS_SHOWN = 4
_LEFT_OUT_SHOWN = 3
_WIDTH = 118  # characters of a line of text
_IN_THE_ROW = (("device", "in_order"), ("rail", "of_first_port"), ("cpus", "not_asked"))


def machine(
    topology: Topology, binding: NodeBinding | None, origin: str, digest: str, no_route: str | None = None
) -> str:
    """All of ``elaunch topo``; ``binding`` None: no rank was asked for. ``origin``: the file, empty for this host.

    ``no_route``: why ranks cannot be bound, where that ends nothing.
    """
    parts = [_headline(topology, origin, digest)]
    if binding is not None and binding.ranks:
        parts.append(ranks(binding))
        parts += _wrapped(_why(rank) for rank in binding.ranks)
    if binding is not None and binding.shared:
        parts += _wrapped(["every rank may use " + ", ".join(port.id for port in binding.shared)])
    if binding is not None and binding.refused:
        parts.append(table([("LEFT OUT", "REASON"), *_left_out(binding.refused)]))
    parts.append(drawn(tree(topology)))
    told = [*((no_route,) if no_route else ()), *(binding.warnings if binding else ()), *topology.notes]
    parts += _wrapped(f"note: {text}" for text in told)
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
    """One row for each rank."""
    rows: list[Sequence[str]] = [("RANK", "DEVICE", "NICS", "LEVEL", "RAIL", "NUMA", "CPUS")]
    rows += [_row(rank) for rank in binding.ranks]
    return table(rows, ">")


def _row(rank: RankBinding) -> Sequence[str]:
    return (
        str(rank.local_rank),
        rank.device.id if rank.device else _NONE,
        few([port.id for port in rank.ports], _NICS_SHOWN) or _NONE,
        rank.level.name if rank.level is not None else _NONE,
        _number(rank.rail),
        _number(rank.numa),
        format_list(rank.cpus) if rank.cpus is not None else "all",
    )


def _why(rank: RankBinding) -> str:
    """The reasons, but for those that the row says itself."""
    told = [reason.text for reason in rank.why if (reason.about, reason.code) not in _IN_THE_ROW]
    return f"rank {rank.local_rank}: {'; '.join(told)}" if told else ""


def _left_out(refused: Sequence[Refused]) -> list[tuple[str, str]]:
    """A row for each reason, with the ports that it holds of."""
    ports: dict[str, list[str]] = {}
    for one in refused:
        ports.setdefault(predicate(one), []).append(one.port.id)
    return [(few(names, _LEFT_OUT_SHOWN), text) for text, names in ports.items()]


def _wrapped(texts: Iterable[str]) -> list[str]:
    """One paragraph of sentences, each from a new line; none where there are no sentences."""
    lines = (textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in texts)
    text = "\n".join(line for sentence in lines for line in sentence)
    return [text] if text else []


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
