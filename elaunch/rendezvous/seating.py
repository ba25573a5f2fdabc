"""Who is in the next generation, and in which order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

from elaunch.rendezvous.plan import Member
from elaunch.rendezvous.records import Node

N = TypeVar("N", bound=Node)


def order(nodes: Iterable[N], previous: Sequence[Member], limit: int) -> list[N]:
    """At most ``limit`` nodes in the order of their group ranks.

    Asked-for node ranks come first. Newcomers are in the order of their scheduler's numbers, else in that in which they
    joined. Survivors keep the order that they had, newcomers take the places of
    the lost ones and then the end: where as many came as were lost, no survivor changes its rank. A node that is back
    on a lost one's host is preferred to a spare that has waited for longer, and gets its old place, so that ranks stay
    with their hosts; then whoever starts as many ranks as the lost one, so that all others keep their numbers.

    Nobody waits for a node to come back: a spare that is here when a generation is planned takes its place at once.
    """
    by_id = {node.node_id: node for node in nodes}
    survivors = [by_id[m.node_id] for m in previous if m.node_id in by_id][:limit]
    kept = {node.node_id for node in survivors}
    newcomers = sorted((node for node in by_id.values() if node.node_id not in kept), key=_asked_then_joined)
    seats = _seats(newcomers, [m for m in previous if m.node_id not in kept], limit - len(survivors))
    chosen = [*survivors, *seats.values()]
    seated = {node.node_id for node in chosen}
    rest = [node for node in newcomers if node.node_id not in seated][: limit - len(chosen)]
    if any(node.node_rank >= 0 for node in (*chosen, *rest)):
        return sorted([*chosen, *rest], key=_asked_then_joined)
    placed = [by_id[m.node_id] if m.node_id in kept else seats.get(m.node_id) for m in previous]
    return [*(node for node in placed if node is not None), *rest]


def _seats(newcomers: Sequence[N], lost: Sequence[Member], free: int) -> dict[str, N]:
    """Which newcomer takes which lost node's place, at most ``free`` of them.

    Asked-for ranks are no matter of places: whoever asks comes before those who do not.
    """
    if any(node.node_rank >= 0 for node in newcomers):
        return {member.node_id: node for member, node in zip(lost, newcomers[: max(0, free)], strict=False)}
    seats: dict[str, N] = {}
    for alike in (_at_home, _of_a_size, _at_all):
        seated = {node.node_id for node in seats.values()}
        queues: dict[tuple[object, ...], deque[N]] = {}
        for node in newcomers:
            if node.node_id not in seated:
                queues.setdefault(alike(node), deque()).append(node)
        for member in lost:
            queue = queues.get(alike(member))
            if queue and member.node_id not in seats and len(seats) < free:
                seats[member.node_id] = queue.popleft()
    return seats


def _at_home(node: Node | Member) -> tuple[object, ...]:
    return node.host, node.slots, node.role


def _of_a_size(node: Node | Member) -> tuple[object, ...]:
    return node.slots, node.role


def _at_all(node: Node | Member) -> tuple[object, ...]:
    return ()


def _asked_then_joined(node: Node) -> tuple[bool, int, int, int, str]:
    return node.node_rank < 0, node.node_rank, node.place, node.joined, node.node_id
