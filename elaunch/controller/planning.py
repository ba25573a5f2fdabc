"""Who is in the next generation, and with which ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from elaunch.controller.job import Job, NodeView
from elaunch.rendezvous.records import Member, Node, Plan, Reason


def order(nodes: Iterable[Node], previous: Sequence[Member], limit: int) -> list[Node]:
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
        key=lambda node: (node.node_rank < 0, node.node_rank, node.joined, node.node_id),
    )[: limit - len(survivors)]
    if any(node.node_rank >= 0 for node in (*survivors, *newcomers)):
        everyone = [*survivors, *newcomers]
        return sorted(everyone, key=lambda node: (node.node_rank < 0, node.node_rank, node.joined, node.node_id))
    queue = iter(newcomers)
    placed: list[Node] = []
    gaps = len(newcomers)
    for node_id in old_ids:
        if node_id in kept:
            placed.append(by_id[node_id])
        elif gaps > 0:
            placed.append(next(queue))
            gaps -= 1
    return [*placed, *queue]


def make_plan(job: Job, nodes: Sequence[Node], reason: Reason) -> Plan:
    """The plan of the next generation for ``nodes`` in the order of their group ranks.

    Ranks are contiguous by node; role ranks are contiguous within each role. The store is hosted by the first node.
    """
    rank0s = [0, *accumulate(node.slots for node in nodes)]
    role_size: dict[str, int] = {}
    members: list[Member] = []
    for node in nodes:
        role_size[node.role] = role_size.get(node.role, 0) + node.slots
    role_next = dict.fromkeys(role_size, 0)
    for group_rank, node in enumerate(nodes):
        members.append(
            Member(
                node_id=node.node_id,
                host=node.host,
                slots=node.slots,
                group_rank=group_rank,
                rank0=rank0s[group_rank],
                role=node.role,
                role_rank0=role_next[node.role],
                role_world_size=role_size[node.role],
            )
        )
        role_next[node.role] += node.slots
    host = nodes[0]
    return Plan(
        generation=job.generation + 1,
        restart_count=job.restart_count + (1 if job.charged else 0),
        reason=reason,
        members=tuple(members),
        world_size=rank0s[-1],
        store_node=host.node_id,
        store_address=host.address,
        store_port=store_port(job.nodes[host.node_id]),
    )


def store_port(view: NodeView) -> int:
    """The port on which this node listens for the next store: its status knows it newer than its key."""
    return (view.status.store_port if view.status else 0) or view.node.store_port
