"""The waiting job: when there are enough nodes, which of them form the next generation, and what is waited for."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.controller.mistrust import screened
from elaunch.controller.planning import make_plan
from elaunch.controller.probing import held, holds
from elaunch.controller.roster import eligible, fewest, unattached
from elaunch.controller.transitions import end
from elaunch.errors import JoinTimeoutError
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Phase, Reason
from elaunch.rendezvous.seating import order
from elaunch.rendezvous.state import UNTOLD

EXIT_JOIN_TIMEOUT = JoinTimeoutError.exit_code
EXIT_FIXED_WORLD = 91

_NAMED = 8  # hosts in a sentence


def waiting_for(job: Job) -> str:
    """What a waiting job waits for, as one sentence."""
    ready = job.ready
    policy = job.policy
    why = f" ({job.reason.text}{_missing(job)})" if job.formed else ""
    if ready < fewest(job):
        return (
            f"{ready} of at least {fewest(job)} nodes are here{why}; "
            f"waiting up to {policy.join_timeout:.0f} s for the others (join_timeout)"
        )
    if ready < policy.min_nodes:
        return (
            f"{ready} of the {policy.min_nodes} nodes that the job was scaled to are here{why}; "
            f"waiting up to {policy.last_call_timeout:.0f} s for the others, then it goes on with those that are here"
        )
    if job.last_call is not None:
        return f"{ready} of {policy.max_nodes} nodes are here; last call for {policy.last_call_timeout:.0f} s"
    if job.probing and not job.formed:
        return f"{ready} nodes are here; their interfaces are being probed"
    return f"{ready} nodes are here; waiting until they are ready"


def _missing(job: Job) -> str:
    """The hosts of the last generation that are not here, but for those of which the reason tells already."""
    here = {view.node.host for view in job.nodes.values()}
    members = job.plan.members if job.plan is not None else ()
    gone = dict.fromkeys(m.host for m in members if m.host not in here and m.host not in job.reason.text)
    if not gone:
        return ""
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    return f"; missing: {', '.join(list(gone)[:_NAMED])}{more}"


def try_plan(job: Job, now: float) -> Job:
    policy = job.policy
    if job.probing and holds(job, now):
        return job
    job = screened(job, now)
    if job.ready < fewest(job):
        if now >= job.since + policy.join_timeout:
            text = (
                f"{job.ready} of at least {fewest(job)} nodes came within {policy.join_timeout:.0f} s"
                f" (join_timeout){'; before: ' + job.reason.text if job.formed else ''}"
            )
            return end(job, now, Phase.FAILED, Reason("join_timeout", text), EXIT_JOIN_TIMEOUT)
        return replace(job, last_call=None) if job.last_call is not None else job
    if job.ready < (policy.min_nodes if job.formed else policy.max_nodes):
        if job.last_call is None:
            return replace(job, last_call=now + policy.last_call_timeout)
        if now < job.last_call:
            return job
    if job.formed and unattached(job) and job.ready < policy.max_nodes and now < job.since + policy.reattach:
        return job
    chosen = order((v.node for v in eligible(job)), job.members, policy.max_nodes)
    if any(not job.nodes[node.node_id].at_rest(0) for node in chosen):
        return job
    job, waits = held(job, chosen, now)
    if waits:
        return job
    plan = make_plan(job, chosen, job.reason)
    if policy.fixed_world and job.world not in (0, plan.world_size):
        text = f"the program needs its {job.world} ranks (--fixed-world), and {plan.world_size} would be left"
        return end(job, now, Phase.FAILED, Reason("fixed_world", text), EXIT_FIXED_WORLD)
    return adopt(job, plan, now)


def adopt(job: Job, plan: Plan, now: float) -> Job:
    return replace(
        job,
        phase=Phase.STARTING,
        generation=plan.generation,
        restart_count=plan.restart_count,
        plan=plan,
        uncommitted=True,
        charged=False,
        evidence=False,
        world=job.world or plan.world_size,
        formed=True,
        failures=(),
        ran_since=None,
        succeeded=frozenset(),
        last_call=None,
        grow_at=None,
        from_step=-1,
        restored=UNTOLD,
        step=-1,
        since=now,
    )
