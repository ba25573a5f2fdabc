"""Who is in the next generation, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from elaunch.rendezvous.records import Member, Node

N = TypeVar("N", bound=Node)


def order(nodes: Iterable[N], previous: Sequence[Member], limit: int) -> list[N]:
    """At most ``limit`` nodes in the order of their group ranks.

    Asked-for node ranks come first. Otherwise survivors keep the order that they had, newcomers take the places of
    the lost ones and then the end: where as many came as were lost, no survivor changes its rank.
    """
    by_id = {node.node_id: node for node in nodes}
    old_ids = [member.node_id for member in previous]
    survivors = [by_id[i] for i in old_ids if i in by_id][:limit]
    kept = {node.node_id for node in survivors}
    newcomers = sorted(
        (node for node in by_id.values() if node.node_id not in kept),
        key=_asked_then_joined,
    )[: limit - len(survivors)]
    if any(node.node_rank >= 0 for node in (*survivors, *newcomers)):
        everyone = [*survivors, *newcomers]
        return sorted(everyone, key=_asked_then_joined)
    queue = iter(newcomers)
    placed: list[N] = []
    gaps = len(newcomers)
    for node_id in old_ids:
        if node_id in kept:
            placed.append(by_id[node_id])
        elif gaps > 0:
            placed.append(next(queue))
            gaps -= 1
    return [*placed, *queue]


def _asked_then_joined(node: Node) -> tuple[bool, int, int, str]:
    return node.node_rank < 0, node.node_rank, node.joined, node.node_id
