"""The plan of the next generation: which node has which ranks, and where the store is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from elaunch.controller.job import Job, NodeView
from elaunch.controller.rerouting import avoided
from elaunch.controller.rewinding import recorded_step
from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Node, Reason


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
        from_step=job.from_step,
        avoid_steps=tuple(step for step in job.history.suspects if step != job.from_step),
        recorded_step=recorded_step(job),
        rewinds=job.rewinds,
        incarnation=job.incarnation,
        unreachable=tuple(port for port in job.unreachable if any(node.node_id == port.node_id for node in nodes)),
        avoid_ports=avoided(job, {node.host for node in nodes}),
    )


def store_port(view: NodeView) -> int:
    """The port on which this node listens for the next store: its status knows it newer than its key."""
    return (view.status.store_port if view.status else 0) or view.node.store_port
