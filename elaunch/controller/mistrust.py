"""Hosts with repeated faults, in the state of the job: who is charged with a fault, and whose nodes are left out."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job, NodeView
from elaunch.controller.quarantine import Fault, QuarantinePolicy, screen, with_fault
from elaunch.controller.restarting import CAUSES
from elaunch.controller.roster import fewest
from elaunch.rendezvous.memory import HostRecord

MOST_HOSTS = 500  # with faults to remember: they stand in the state, and hosts of a cloud do not come again


def _policy(job: Job) -> QuarantinePolicy:
    seconds = job.policy.quarantine_seconds
    return QuarantinePolicy(job.policy.quarantine_faults, seconds, seconds, 24 * seconds)


def charged(job: Job, now: float) -> Job:
    """``job`` with the fault that has ended its generation held against the host that is to blame."""
    cause = CAUSES.get(job.reason.code)
    if cause is None or not job.blamed:
        return job
    policy = _policy(job)
    record = next((host for host in job.hosts if host.host == job.blamed), HostRecord(job.blamed))
    fault = Fault(now + job.wall_offset, job.generation, cause.value, job.reason.text)
    others = [host for host in job.hosts if host.host != job.blamed]
    if len(others) >= MOST_HOSTS:  # they stand in the order of their last faults, and whoever is put away stays so
        del others[next((n for n, host in enumerate(others) if not host.left(fault.time)), 0)]
    return replace(job, hosts=(*others, with_fault(policy, record, fault)), blamed="")


def screened(job: Job, now: float) -> Job:
    """``job`` with the nodes of mistrusted hosts left out, as far as it can do without them.

    Where all nodes are on one host there is nobody to do without it.
    """
    if not any(host.times or host.until for host in job.hosts):
        return job  # nobody has ever been put away
    wall = now + job.wall_offset
    able = [replace(view, quarantined="") for view in job.nodes.values()]
    nodes = [view.node for view in able if view.eligible]
    why: dict[str, str] = {}
    if len({node.host for node in nodes}) > 1:
        _, why = screen(_policy(job), {host.host: host for host in job.hosts}, nodes, fewest(job), wall)
    for view in able:
        job = _marked(job, replace(view, quarantined=why.get(view.node.host, "")))
    return job


def pardoned(job: Job, host: str) -> Job:
    """``job`` with nothing held against a host any more."""
    job = replace(job, hosts=tuple(record for record in job.hosts if record.host != host))
    for view in job.nodes.values():
        if view.node.host == host:
            job = _marked(job, replace(view, quarantined=""))
    return job


def in_quarantine(job: Job, host: str, now: float) -> bool:
    """Whether ``host`` is kept out now, where it can be done without."""
    return any(record.host == host and record.left(now + job.wall_offset) > 0 for record in job.hosts)


def _marked(job: Job, view: NodeView) -> Job:
    return job.with_node(view) if view != job.nodes[view.node.node_id] else job
