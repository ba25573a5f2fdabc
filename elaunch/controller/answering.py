"""When an operator's command is through, and what came of it. Values only."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.faults import signal_name
from elaunch.controller.job import Job
from elaunch.controller.operations import OVER, UNSEALED, malformed
from elaunch.controller.probing import begin, concluded, documents, questions, under_way
from elaunch.controller.requests import ANSWER_WITHIN
from elaunch.controller.roster import count, world
from elaunch.controller.standings import FINISHED, REFUSED, done, failed, refused
from elaunch.errors import AccessRefusedError, UnansweredError
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.records import Phase

UNANSWERED = UnansweredError.exit_code
ROOM = 128 << 10  # bytes of answers that one command keeps, all nodes together
CUT = "\n[... cut]"


def follow_operations(job: Job, now: float, about: str | None = None) -> Job:
    """``job`` with each accepted command looked at: what it waits for may have come.

    ``about`` is the node of which something has come, None where it may be any: what a thousand nodes answer is not
    to be looked for at a thousand nodes with each answer.
    """
    for operation in job.operations:
        if operation.standing is not Standing.ACCEPTED:
            continue
        if operation.id in job.answer_by and not job.phase.final:
            job, operation = _gather(job, operation, now, about)
        job = _FOLLOW[operation.kind](job, operation, now)
    return job


def adopt_operations(job: Job, operations: tuple[Operation, ...], now: float) -> Job:
    """``job`` with the commands that another leader had accepted; nodes that owe an answer get their time anew."""
    bad = tuple(o for o in operations if malformed(o))
    good = tuple(o for o in operations if o not in bad)
    until = {o.id: now + ANSWER_WITHIN[o.kind] for o in good if o.kind in ANSWER_WITHIN}
    return lapse(replace(job, operations=good, answer_by=until), bad, "this is no command that a leader has accepted")


def lapse(job: Job, operations: tuple[Operation, ...], why: str = OVER) -> Job:
    """``job`` with commands that nothing will come of: those of a run that ended without a word."""
    for operation in operations:
        job = failed(job, operation, why, FINISHED)
    return job


def disown(job: Job, operations: tuple[Operation, ...]) -> Job:
    """``job`` with commands refused that are said to be accepted, and that no operator has sealed."""
    for operation in operations:
        job = refused(job, operation, UNSEALED, AccessRefusedError.exit_code)
    return job


def forget_written(job: Job, ids: frozenset[str]) -> Job:
    """Without the commands that are over, and written so."""
    if not ids:
        return job
    return replace(job, operations=tuple(o for o in job.operations if o.id not in ids or o.standing.open))


def _abort(job: Job, operation: Operation, now: float) -> Job:
    if not job.phase.final:
        return job
    if job.phase is Phase.STOPPED:
        return done(job, operation, f"the job has ended: {job.reason.text}")
    return failed(job, operation, f"the job ended otherwise ({job.phase.value}): {job.reason.text}", REFUSED)


def _new_generation(job: Job, operation: Operation, now: float) -> Job:
    """A restart, or a scaling that took one: through when the next generation runs."""
    if job.phase.final:
        return failed(job, operation, f"the job ended instead ({job.phase.value}): {job.reason.text}", REFUSED)
    if job.generation > operation.generation and job.phase is Phase.RUNNING:
        size = world(job.plan.world_size if job.plan else 0, len(job.members))
        return done(job, operation, f"generation {job.generation} runs: {size}")
    return job


def _drain(job: Job, operation: Operation, now: float) -> Job:
    if job.phase.final:
        return failed(job, operation, f"the job has ended ({job.phase.value}): {job.reason.text}", REFUSED)
    if any(node_id in job.nodes for node_id in operation.nodes):
        return job
    host = next((d.host for d in job.drained if set(operation.nodes) & set(d.nodes)), None)
    out = f"; {host} stays out until `elaunch undrain {host}`" if host else ""
    return done(job, operation, f"{operation.arguments['node']} has left the job{out}")


def _asked(job: Job, operation: Operation, now: float) -> Job:
    """A signal or a wish for stacks: through when every node has answered, or its time is over."""
    if job.phase.final:
        return failed(_without_deadline(job, operation), operation, "the job ended meanwhile", REFUSED)
    if operation.id in job.answer_by:
        return job
    good = [text for text in operation.answers.values() if not text.startswith(_BAD)]
    if operation.kind == "signal":
        sent = f"{signal_name(operation.arguments['signal'])} was sent"
        text = f"{sent} on {_count(operation)}"
    elif operation.kind == "inject":
        text = "; ".join(good)
    else:
        text = f"stacks came from {_count(operation)}"
    if good:
        return done(job, operation, text)
    silent = all(text == _SILENT for text in operation.answers.values())
    texts = sorted({text.removeprefix(_BAD) for text in operation.answers.values()})
    return failed(job, operation, "; ".join(texts), UNANSWERED if silent else REFUSED)


def _probe(job: Job, operation: Operation, now: float) -> Job:
    """Through when all nodes have reported, or their time is over."""
    if job.phase.final:
        return failed(job, operation, "the job ended meanwhile", REFUSED)
    probing = under_way(job, operation.id)
    if probing is None:  # it was accepted by another leader
        return begin(job, operation, now)
    if (over := concluded(job, probing, now)) is None:
        return job
    job, found = over
    tried = questions(job, probing)
    said = count(len(found), "finding") if found else "nothing is wrong" if tried else "there was nothing to try"
    text = f"{count(tried, 'way')} between the interfaces of {count(len(probing.nodes), 'node')}: {said}"
    return done(job, replace(operation, answers=documents(found)), text)


_BAD = "error: "
_SILENT = _BAD + "no answer in time"
_LOST = _BAD + "the node was lost before it answered"


def _gather(job: Job, operation: Operation, now: float, about: str | None) -> tuple[Job, Operation]:
    """Take the answers that have come; with the last of them, or at the deadline, nothing more is waited for."""
    late = now >= job.answer_by[operation.id]
    room = ROOM // max(1, len(operation.nodes))
    new: dict[str, str] = {}
    for node_id in operation.nodes if about is None or late else (about,):
        text = None if node_id in operation.answers else _answer(job, operation.id, node_id, late)
        if text is not None and (node_id != about or node_id in operation.nodes):
            new[node_id] = text if len(text) <= room else text[:room] + CUT
    if new:
        operation = replace(operation, answers={**operation.answers, **new})
        job = _replaced(job, operation)
    if len(operation.answers) == len(operation.nodes):
        job = _without_deadline(job, operation)
    return job, operation


def _answer(job: Job, operation_id: str, node_id: str, late: bool) -> str | None:
    view = job.nodes.get(node_id)
    if view is None:
        return _LOST
    for answer in view.status.answers if view.status else ():
        if answer.id == operation_id:
            return answer.text if answer.ok else _BAD + answer.text
    return _SILENT if late else None


def _replaced(job: Job, operation: Operation) -> Job:
    return replace(job, operations=tuple(operation if o.id == operation.id else o for o in job.operations))


def _without_deadline(job: Job, operation: Operation) -> Job:
    return replace(job, answer_by={k: v for k, v in job.answer_by.items() if k != operation.id})


def _count(operation: Operation) -> str:
    good = len([text for text in operation.answers.values() if not text.startswith(_BAD)])
    return f"{good} of {count(len(operation.nodes), 'node')}"


_FOLLOW = {
    "abort": _abort,
    "restart": _new_generation,
    "scale": _new_generation,
    "drain": _drain,
    "signal": _asked,
    "stacks": _asked,
    "probe": _probe,
    "inject": _asked,
    "announce": _asked,
}
