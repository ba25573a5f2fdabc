"""What an operator's command has nodes do, while the job goes on as it is. Values only."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.faults import signal_name
from elaunch.controller.injection import aimed, announced
from elaunch.controller.job import Job
from elaunch.controller.probing import begin, facts_of
from elaunch.controller.roster import count
from elaunch.controller.standings import NOT_FOUND, REFUSED, accepted, done, refused
from elaunch.inject.fault import Fault
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import Phase

ANSWER_WITHIN = {"signal": 10.0, "stacks": 20.0, "inject": 10.0}  # seconds that nodes get to answer
NOT_ALLOWED = "the job was not started with --allow-injection: nothing can be injected into it"


def signal(job: Job, operation: Operation, now: float) -> Job:
    return _ask_running(job, operation, f"{signal_name(operation.arguments['signal'])} is on its way", now)


def stacks(job: Job, operation: Operation, now: float) -> Job:
    return _ask_running(job, operation, "the nodes are asked", now)


def announce(job: Job, operation: Operation, now: float) -> Job:
    """A fault that was brought about from outside, for the history."""
    if not job.policy.allow_injection:
        return refused(job, operation, NOT_ALLOWED, REFUSED)
    return done(job, operation, announced(operation.arguments))


def inject(job: Job, operation: Operation, now: float) -> Job:
    if not job.policy.allow_injection:
        return refused(job, operation, NOT_ALLOWED, REFUSED)
    fault = Fault.of(operation.arguments["fault"])
    running = job.phase in (Phase.STARTING, Phase.RUNNING)
    nodes, missing = aimed(job, fault) if running else ((), "")
    if missing:
        return refused(job, operation, missing, NOT_FOUND)
    return _ask_running(job, operation, f"{fault}: the node is asked", now, nodes)


def _ask_running(job: Job, operation: Operation, text: str, now: float, nodes: tuple[str, ...] = ()) -> Job:
    if job.phase not in (Phase.STARTING, Phase.RUNNING):
        why = "waits for nodes" if job.phase is Phase.WAITING else "is between two generations"
        return refused(job, operation, f"no rank runs now: the job {why}", REFUSED)
    world = job.plan.world_size if job.plan else 0
    rank = operation.arguments.get("rank", -1)
    if rank >= world:
        return refused(job, operation, f"no rank {rank} in generation {job.generation}: it has {world}", NOT_FOUND)
    return _ask(job, operation, text, now, nodes)


def _ask(job: Job, operation: Operation, text: str, now: float, nodes: tuple[str, ...] = ()) -> Job:
    """Accepted, and the nodes of the ranks in question have some time to answer."""
    rank = operation.arguments.get("rank", -1)
    nodes = nodes or tuple(m.node_id for m in job.members if rank < 0 or m.rank0 <= rank < m.rank0 + m.slots)
    job = replace(job, answer_by={**job.answer_by, operation.id: now + ANSWER_WITHIN[operation.kind]})
    return accepted(job, operation, text, nodes)


def probe(job: Job, operation: Operation, now: float) -> Job:
    facts = facts_of(job.nodes.values())
    if len(facts) < 2:
        text = (
            f"{count(len(facts), 'node')} of this job can be probed, and it takes two: nodes that were started with"
            " --probe=off, or reach the others over loopback, tell of no interfaces"
        )
        return refused(job, operation, text, REFUSED)
    nodes = tuple(node.node_id for node in facts)
    return accepted(begin(job, operation, now), operation, f"{count(len(facts), 'node')} are asked", nodes)
