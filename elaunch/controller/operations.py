"""What an operator's command does to a job in each of its phases, and what it answers. Values only.

A command has its effect once, in :func:`operate`; :func:`elaunch.controller.answering.follow_operations` says when it
is through. The leader writes the effect on the job's state and the command's new standing in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elaunch.controller.draining import drain_of, named, with_drained
from elaunch.controller.injection import wrong_announcement, wrong_fault
from elaunch.controller.job import Job
from elaunch.controller.mistrust import in_quarantine, pardoned
from elaunch.controller.requests import announce, inject, probe, signal, stacks
from elaunch.controller.roster import count, fewest
from elaunch.controller.standings import FINISHED, NOT_FOUND, REFUSED, accepted, done, refused
from elaunch.controller.suspects import cleared
from elaunch.controller.transitions import abort, end
from elaunch.errors import AccessRefusedError
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import Phase, Reason
from elaunch.rendezvous.state import Drain

EXIT_ABORTED = 94  # of the agents of a job that an operator aborted
ABORTED = "operator_abort"
RESTARTED = "operator_restart"
SCALED = "operator_scale"
_MOST_NODES = 1_000_000

UNSEALED = "it does not come with an operator's token of this job (see --token-file)"
OVER = "the run of the job that this was for is over"

Effect = Callable[[Job, Operation, float], Job]


def operate(job: Job, operation: Operation, now: float, *, sealed: bool = True) -> Job:
    """``job`` after the operator's command: one that it knows already changes nothing."""
    if any(known.id == operation.id for known in job.operations):
        return job
    if not sealed:
        return refused(job, operation, UNSEALED, AccessRefusedError.exit_code)
    if job.nodes and operation.order < min(view.node.joined for view in job.nodes.values()):
        return refused(job, operation, OVER, FINISHED)
    if job.phase.final:
        return refused(job, operation, f"the job has ended already ({job.phase.value}): {job.reason.text}", FINISHED)
    if job.verdict is not None:
        what = "being aborted already" if job.reason.code == ABORTED else "ending already"
        return refused(job, operation, f"the job is {what}: {job.reason.text}", REFUSED)
    if wrong := malformed(operation):
        return refused(job, operation, wrong, REFUSED)
    return _EFFECTS[operation.kind](job, operation, now)


def malformed(operation: Operation) -> str:
    """What is wrong with a command that no command line of ours has written; empty where nothing is."""
    if operation.kind not in _EFFECTS:
        return f"this release knows no command {operation.kind!r}"
    if operation.kind == "announce":
        return wrong_announcement(operation.arguments)
    if operation.kind == "inject":
        return wrong_fault(operation.arguments.get("fault"))
    values = operation.arguments
    numbers = {"rank": (-1, _MOST_NODES), "from_step": (-1, 2**62), "signal": (1, 64)}
    limits = {"min_nodes": (1, _MOST_NODES), "max_nodes": (1, _MOST_NODES)}
    for name, (low, high) in (numbers | limits).items():
        value = values.get(name, low)
        if type(value) is not int or not low <= value <= high:
            return f"{name}={value!r}: expected a number from {low} to {high}"
    needed = {"drain": ("node",), "undrain": ("node",), "scale": ("min_nodes", "max_nodes"), "signal": ("signal",)}
    if missing := [name for name in needed.get(operation.kind, ()) if name not in values]:
        return f"{operation.kind}: no {missing[0]} given"
    if operation.kind == "scale" and values["min_nodes"] > values["max_nodes"]:
        return f"{values['min_nodes']}:{values['max_nodes']}: expected MIN:MAX with MIN not above MAX"
    return ""


# --- the effects, in a job that goes on -----------------------------------------------------------------------------


def _abort(job: Job, operation: Operation, now: float) -> Job:
    if job.phase is Phase.WAITING:
        text = "the job ends; nothing ran"
    elif operation.arguments.get("evidence") and job.phase is not Phase.ABORTING:
        text = "the ranks' stacks are saved and the ranks stopped; then the job ends"
    else:
        text = "the ranks are being stopped; then the job ends"
    evidence = bool(operation.arguments.get("evidence")) or job.evidence
    ended = end(job, now, Phase.STOPPED, Reason(ABORTED, f"aborted {operation.because}"), EXIT_ABORTED)
    return accepted(replace(ended, evidence=evidence and not ended.phase.final), operation, text)


def _restart(job: Job, operation: Operation, now: float) -> Job:
    if job.phase is Phase.WAITING:
        here = f"{job.ready} of at least {job.policy.min_nodes} nodes are here"
        return refused(job, operation, f"there is nothing to restart: the job waits for nodes ({here})", REFUSED)
    if job.phase is Phase.ABORTING:
        text = f"generation {job.generation} was being stopped already ({job.reason.text}); the next one follows"
    else:
        text = f"generation {job.generation} is being stopped; the next one follows"
    job = abort(job, now, Reason(RESTARTED, f"restarted {operation.because}"))
    step = operation.arguments.get("from_step", -1)
    if step >= 0:
        job = replace(job, from_step=step, history=cleared(job.history, step))
        text += f", from step {step}"
    return accepted(job, operation, text)


def _drain(job: Job, operation: Operation, now: float) -> Job:
    name = str(operation.arguments["node"])
    found = named(job, name)
    if known := drain_of(job, name):
        return refused(job, operation, f"{name} is drained already: {known.why}", REFUSED)
    if not found:
        return refused(job, operation, f"no node or host {name} is in the job", NOT_FOUND)
    ids = tuple(node.node_id for node in found)
    rest = len([view for view in job.nodes.values() if view.node.node_id not in ids and _stays(job, view.node.node_id)])
    if job.policy.fixed_world and job.phase is not Phase.WAITING and rest < len(job.members):
        text = f"the program needs its {job.world} ranks (--fixed-world), and no spare would take the place of {name}"
        return refused(job, operation, text, REFUSED)
    if rest < (1 if job.phase is Phase.WAITING else fewest(job)):
        text = (
            f"without {name} the job would have {rest} of at least {fewest(job)} nodes and would end;"
            " scale it down first (elaunch scale), or abort it"
        )
        return refused(job, operation, text, REFUSED)
    host, why = found[0].host, f"drained {operation.because}"
    older = next((d for d in job.drained if d.host == host), None)
    nodes = (*(older.nodes if older else ()), *ids)
    drain = Drain(host, nodes, max(operation.order, older.since if older else 0), why)
    others = tuple(d for d in job.drained if d.host != host)
    text = f"{count(len(ids), 'node')} of {host} asked to leave; the host stays out until `elaunch undrain {host}`"
    return accepted(with_drained(job, (*others, drain)), operation, text, ids)


def _stays(job: Job, node_id: str) -> bool:
    view = job.nodes[node_id]
    return not view.barred and not (view.status is not None and not view.eligible)


def _undrain(job: Job, operation: Operation, now: float) -> Job:
    name = str(operation.arguments["node"])
    drain = drain_of(job, name)
    if drain is None and in_quarantine(job, name, now):
        return done(pardoned(job, name), operation, f"{name} may take part again, and its faults are forgotten")
    if drain is None:
        return refused(job, operation, f"{name} is not drained, nor in quarantine", REFUSED)
    job = with_drained(job, tuple(d for d in job.drained if d is not drain))
    return done(job, operation, f"{drain.host} may take part again")


def _scale(job: Job, operation: Operation, now: float) -> Job:
    low, high = operation.arguments["min_nodes"], operation.arguments["max_nodes"]
    before = job.policy
    if before.fixed_world:
        return refused(job, operation, "the program needs the world that it began with (--fixed-world)", REFUSED)
    if (low, high) == (before.min_nodes, before.max_nodes):
        return done(job, operation, f"the job has {low}:{high} nodes already; nothing changes")
    job = replace(job, policy=replace(before, min_nodes=low, max_nodes=high), scaled=True)
    text = f"{low}:{high} nodes instead of {before.min_nodes}:{before.max_nodes}"
    members = len(job.members)
    if job.phase in (Phase.STARTING, Phase.RUNNING) and members > high:
        reason = Reason(SCALED, f"scaled to {low}:{high} nodes {operation.because}")
        text += f"; {members} nodes run, the next generation has {high} at most"
        return accepted(abort(job, now, reason), operation, text)
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        wait = job.ready - members
        text += f"; now {count(members, 'node')}{f', {wait} more waiting' if wait > 0 else ''}"
        if members < low:
            patience = f"up to {before.last_call_timeout:.0f} s (last_call_timeout)"
            text += f"; the generation runs on, and the next one waits {patience} for {count(low, 'node')}"
    return done(job, operation, text)


_EFFECTS: dict[str, Effect] = {
    "abort": _abort,
    "restart": _restart,
    "drain": _drain,
    "undrain": _undrain,
    "scale": _scale,
    "signal": signal,
    "stacks": stacks,
    "probe": probe,
    "inject": inject,
    "announce": announce,
}
KINDS = tuple(_EFFECTS)
