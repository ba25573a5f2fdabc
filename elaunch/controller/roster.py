"""The nodes of a job as its leader sees them: who is here, who may be given ranks, and how to speak of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from elaunch.controller.job import Job, NodeView


def eligible(job: Job) -> list[NodeView]:
    return [view for view in job.nodes.values() if view.eligible]


def unattached(job: Job) -> bool:
    """A node with a live key has no stream yet: after a change of leader, it is still on its way."""
    return any(view.status is None for view in job.nodes.values())


def member_views(job: Job) -> list[NodeView]:
    return [job.nodes[m.node_id] for m in job.members if m.node_id in job.nodes]


def all_succeeded(job: Job) -> bool:
    count = len(job.members)
    return 0 < count <= len(job.succeeded) and all(m.node_id in job.succeeded for m in job.members)


def all_members(job: Job, done: Callable[[str], bool]) -> tuple[Job, bool]:
    """Whether every member is done with what the present phase waits for, and the job that remembers which are.

    Whoever is done stays so until the phase or the generation changes: members that were found so, from the first on,
    are not looked at again.
    """
    phase, generation, count = job.passed
    if (phase, generation) != (job.phase, job.generation):
        count = 0
    while count < len(job.members) and done(job.members[count].node_id):
        count += 1
    passed = (job.phase, job.generation, count)
    return job if passed == job.passed else replace(job, passed=passed), count == len(job.members)


def fewest(job: Job) -> int:
    """How few nodes the job goes on with.

    An operator's minimum counts once a generation has had so many: until then it is a wish, and a job that runs does
    not end for want of nodes that have never been there.
    """
    asked = job.policy.min_nodes
    if not (job.scaled and job.formed) or len(job.members) >= asked:
        return asked
    return min(asked, job.least)


def leaving_reason(view: NodeView) -> str:
    told = view.status.leaving_reason if view.status else ""
    return told or f"node {view.node.host} was asked to leave"


def world(ranks: int, nodes: int) -> str:
    """The size of a world in words."""
    return f"{count(ranks, 'rank')} on {count(nodes, 'node')}"


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def names(hosts: Iterable[str]) -> str:
    return ", ".join(hosts)
