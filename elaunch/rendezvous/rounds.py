"""When the nodes of a torchrun job form a round, and in which order. Values in, values out.

A round is a generation. Every participant's key says after which generation it is free: a member of the newest
plan that is not free of it still runs ranks, and no further round is formed before it is free or gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Node, Reason
from elaunch.rendezvous.seating import order

ROLE = "torchrun"


@dataclass(frozen=True, slots=True)
class Participant(Node):
    """One torchrun agent. ``after`` is the newest generation of which it runs no rank any more, 0 at first."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many nodes make a round, and for how many seconds more than the least are waited for."""

    min_nodes: int
    max_nodes: int
    last_call: float


@dataclass(frozen=True, slots=True)
class View:
    """A job's rounds as of ``revision``.

    ``closed`` is the revision at which its run was closed, 0 for never: whoever joined before belongs to that run,
    whoever joined later to the next one.
    """

    revision: int
    participants: Mapping[str, Participant]
    plan: Plan | None
    closed: int

    @property
    def generation(self) -> int:
        """The newest one, 0 before the first."""
        return 0 if self.plan is None else self.plan.generation

    def runs(self, node: Participant) -> bool:
        """Whether ``node`` runs ranks of the newest generation."""
        return self.was_member(node) and node.after < self.generation

    def was_member(self, node: Node) -> bool:
        return self.plan is not None and self.plan.member(node.node_id) is not None

    @property
    def waiting(self) -> list[Participant]:
        """Who could be in the next round."""
        return [node for node in self.participants.values() if not self.runs(node) and node.joined > self.closed]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The next round's nodes, in the order of their ranks; or none yet, to be asked again after ``wait`` seconds
    (None: when something changes)."""

    nodes: tuple[Participant, ...]
    reason: Reason
    wait: float | None = None


def decide(view: View, limits: Limits, waited: float) -> Verdict:
    """Whether to form the next round; ``waited`` is for how many seconds there have been enough nodes."""
    if old := [node for node in view.participants.values() if node.joined < view.closed]:
        return _wait("closing", f"{len(old)} nodes of the closed run are not gone yet")
    if busy := [node for node in view.participants.values() if view.runs(node)]:
        return _wait("busy", f"{len(busy)} nodes still run generation {view.generation}")
    waiting = view.waiting
    if len(waiting) < limits.min_nodes:
        return _wait("too_few", f"{len(waiting)} of at least {limits.min_nodes} nodes have come")
    # Who ran the last generation is back or gone, so that nobody else is known to be on the way.
    resumed = any(view.was_member(node) for node in waiting)
    left = limits.last_call - waited
    if len(waiting) < limits.max_nodes and not resumed and left > 0:
        return _wait("last_call", f"{len(waiting)} nodes have come, up to {limits.max_nodes} may", left)
    nodes = order(waiting, view.plan.members if view.plan else (), limits.max_nodes)
    return Verdict(tuple(nodes), _reason(view, nodes))


def _wait(code: str, text: str, wait: float | None = None) -> Verdict:
    return Verdict((), Reason(code, text), wait)


def _reason(view: View, nodes: Sequence[Participant]) -> Reason:
    survivors = [node for node in nodes if view.was_member(node)]
    if view.plan is None or not survivors:
        return Reason("start", f"{len(nodes)} nodes have come")
    lost = len(view.plan.members) - len(survivors)
    joined = len(nodes) - len(survivors)
    if lost or joined:
        return Reason("membership", f"of generation {view.generation} {lost} nodes are gone, {joined} have joined")
    return Reason("restart", f"all nodes of generation {view.generation} asked for a new round")


def make_plan(view: View, verdict: Verdict) -> Plan:
    """The plan of the next generation. A node's slot is its torchrun agent: torch numbers the workers itself."""
    size = len(verdict.nodes)
    members = tuple(
        Member(
            node_id=node.node_id,
            host=node.host,
            slots=1,
            group_rank=rank,
            rank0=rank,
            role=ROLE,
            role_rank0=rank,
            role_world_size=size,
        )
        for rank, node in enumerate(verdict.nodes)
    )
    host = verdict.nodes[0]
    return Plan(
        generation=view.generation + 1,
        restart_count=0,
        reason=verdict.reason,
        members=members,
        world_size=size,
        store_node=host.node_id,
        store_address=host.address,
        store_port=host.store_port,
    )


def news(view: View, node_id: str, limits: Limits) -> int:
    """How many nodes give ``node_id`` a reason to stop its ranks and meet for a new round.

    Those are late nodes for which there is room, members of its round that are back at the rendezvous, and
    members whose lease has ended. A closed run has no further rounds, so no news either.
    """
    me = view.participants.get(node_id)
    if me is None:
        return 1  # our own lease has ended
    if view.plan is None or not view.runs(me) or view.closed > me.joined:
        return 0
    members = [view.participants.get(member.node_id) for member in view.plan.members]
    gone = sum(node is None for node in members)
    back = sum(node is not None and not view.runs(node) for node in members)
    late = sum(not view.was_member(node) for node in view.waiting)
    room = limits.max_nodes - len(members) + gone
    return gone + back + min(late, room)
