"""What of a job's course is worth a line of its history. Values only: two states in, lines out.

The same sentences are logged by the leader, kept below ``events/`` and shown by ``elaunch events``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from elaunch.controller.faults import starts_of
from elaunch.controller.forming import waiting_for
from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.roster import world
from elaunch.controller.suspects import sentence
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.records import Phase
from elaunch.start_record import CHECKED, LEFT
from elaunch.start_rules import ranks

HOST_FAILED = "host_failed"
EVIDENCE_SAVED = "evidence_saved"
_SHOWN = 8  # hosts that one line names


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. ``hosts`` are those that came or went, so that lines of a thousand nodes can be made one.

    ``loud`` ones the leader tells at its own terminal as well, where nobody else would.
    ``subject`` is the host of which it tells that it failed, ``spans`` are the phases of a recovery that it ends.
    """

    code: str
    text: str
    generation: int = 0
    who: str = ""
    why: str = ""
    hosts: tuple[str, ...] = ()
    loud: bool = False
    subject: str = ""
    spans: tuple[tuple[str, float], ...] = ()


def told(before: Job, after: Job) -> list[Entry]:
    """What ``after`` has that is new, in the order in which it came about."""
    commands = _commands(before, after)
    causes = [entry for entry in commands if entry.code not in _OUTCOMES]
    outcomes = [entry for entry in commands if entry.code in _OUTCOMES]
    found = [*_suspects(before, after), *_findings(before, after), *_left_early(before, after)]
    return [*_nodes(before, after), *failed_hosts(before, after), *causes, *found, *_phases(before, after), *outcomes]


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """With what neighbours of one kind say of hosts in one line; each host's evidence is its own, unless many have."""
    groups: list[list[Entry]] = []
    for entry in entries:
        last = groups[-1][0] if groups else None
        if last and entry.hosts and (last.code, last.generation) == (entry.code, entry.generation):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return [line for group in groups for line in _together(group)]


def _together(group: list[Entry]) -> list[Entry]:
    alone = _SHOWN if group[0].code == EVIDENCE_SAVED else 0
    rest = group[alone:]
    if len(rest) < 2:
        return group
    hosts = tuple(host for entry in rest for host in entry.hosts)
    return [*group[:alone], replace(rest[0], hosts=hosts, text=_of_hosts(rest[0].code, hosts))]


def _phases(before: Job, after: Job) -> list[Entry]:
    if (after.phase, after.generation) == (before.phase, before.generation):
        return []
    reason = after.reason.text
    texts = {
        Phase.WAITING: waiting_for(after),
        Phase.STARTING: f"generation {after.generation} starts, {_world(after)}: {reason}",
        Phase.RUNNING: f"generation {after.generation} runs, {_world(after)}",
        Phase.ABORTING: f"generation {after.generation} is being stopped: {reason}",
    }
    text = texts.get(after.phase, f"the job has {_ENDED.get(after.phase, 'ended')}: {reason}")
    return [Entry(f"job_{after.phase.value}", text, after.generation)]


def saved(job: Job, status: NodeStatus) -> list[Entry]:
    """What a status says of evidence, where it is news."""
    view = job.nodes.get(status.node_id)
    if view is None or not status.evidence or (view.status is not None and view.status.evidence == status.evidence):
        return []
    host = view.node.host
    return [Entry(EVIDENCE_SAVED, f"{host}: {status.evidence}", status.generation, hosts=(host,))]


def _suspects(before: Job, after: Job) -> list[Entry]:
    new = [step for step in after.history.suspects if step not in before.history.suspects]
    return [Entry("checkpoint_suspect", sentence(step), after.generation) for step in new]


def _findings(before: Job, after: Job) -> list[Entry]:
    """What a probe has found and the one before had not."""
    if after.findings is before.findings:
        return []
    new = [finding for finding in after.findings if finding not in before.findings]
    return [Entry(finding.code, finding.text, after.generation, loud=finding.severity != "info") for finding in new]


def _left_early(before: Job, after: Job) -> list[Entry]:
    """Ranks that were through with their process groups when the first rank failed that was still in its own.

    What that rank waited for in a collective cannot have come from them: its error names a connection, if anything.
    """
    if before.failures or not after.failures or after.generation != before.generation:
        return []
    starts = {start.rank: start for start in starts_of(after)}
    failed = after.failures[0]
    mine = starts.get(failed.exit.rank)
    if mine is None or mine.phase != CHECKED or mine.error or mine.fault:
        return []
    statuses = (view.status for view in after.nodes.values() if view.status is not None)
    ended = {e.rank for s in statuses if s.generation == after.generation for e in s.exits if e.exit_code == 0}
    gone = {rank for rank, start in starts.items() if start.phase == LEFT}
    text, without = "", ended - gone
    for who, how in (
        (gone, "destroyed {} process groups"),
        (without, "exited without destroying {} process groups"),
    ):
        if who:
            have, whose = ("has", "its") if len(who) == 1 else ("have", "their")
            text += f"{', ' if text else ''}{ranks(who)} {have} {how.format(whose)}"
    if not text:
        return []
    text += f" before rank {failed.exit.rank} ({failed.host}) failed, which was still in its own"
    return [Entry("rank_left_early", text, after.generation, loud=True)]


def _commands(before: Job, after: Job) -> list[Entry]:
    known = {operation.id: operation.standing for operation in before.operations}
    return [_command(o) for o in after.operations if o.standing is not known.get(o.id)]


def _command(operation: Operation) -> Entry:
    of = f" {operation.arguments['node']}" if "node" in operation.arguments else ""
    text = f"{operation.kind}{of} {operation.because}: {_STANDINGS[operation.standing]}: {operation.answer}"
    code = f"command_{operation.standing.value}"
    if operation.kind == "announce" and operation.standing is Standing.DONE:
        code = "injection_ended" if operation.arguments.get("over") else "injection_began"
        text = operation.answer
    return Entry(code, text, operation.generation, operation.who, operation.reason)


def _nodes(before: Job, after: Job) -> list[Entry]:
    if not after.formed or len(before.nodes) == len(after.nodes):  # one event is about one node
        return []
    entries = []
    for code, one, other in (("node_joined", after, before), ("node_gone", before, after)):
        hosts = tuple(view.node.host for node_id, view in one.nodes.items() if node_id not in other.nodes)
        if hosts:
            entries.append(Entry(code, _of_hosts(code, hosts), after.generation, hosts=hosts))
    return entries


def failed_hosts(before: Job, after: Job) -> list[Entry]:
    """Hosts that an administrator should look at: those that were lost while they worked, or put into quarantine."""
    generation = before.generation
    lost = [view for node_id, view in before.nodes.items() if node_id not in after.nodes and _worked(before, view)]
    texts = [(view.node.host, f"host {view.node.host} was lost in generation {generation}") for view in lost]
    known = {record.host: record.times for record in before.hosts}
    for record in after.hosts if after.hosts is not before.hosts else ():
        if record.times > known.get(record.host, 0):
            texts.append((record.host, f"host {record.host} is in quarantine: {record.reason}"))
    return [Entry(HOST_FAILED, text, generation, subject=host) for host, text in texts]


def _worked(job: Job, view: NodeView) -> bool:
    """Whether ranks of the job ran on a node, that nobody had asked to leave and that could start them."""
    if job.phase.final or job.verdict is not None or job.plan is None or job.plan.member(view.node.node_id) is None:
        return False
    asked = view.leave or (view.status is not None and (view.status.leaving or view.status.start_error))
    return not asked and view.node.node_id not in job.succeeded and not view.at_rest(job.generation)


def _of_hosts(code: str, hosts: tuple[str, ...]) -> str:
    names = ", ".join(hosts[:_SHOWN]) + (f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else "")
    if code == EVIDENCE_SAVED:
        return f"{len(hosts)} more hosts have saved theirs: {names}"
    did = "joined" if code == "node_joined" else "left or was lost" if len(hosts) == 1 else "left or were lost"
    return f"node {names} {did}" if len(hosts) == 1 else f"{len(hosts)} nodes {did}: {names}"


def _world(job: Job) -> str:
    return world(job.plan.world_size if job.plan else 0, len(job.members))


_OUTCOMES = ("command_done", "command_failed")
_ENDED = {Phase.SUCCEEDED: "succeeded", Phase.FAILED: "failed", Phase.STOPPED: "been stopped"}
_STANDINGS = {
    Standing.PENDING: "pending",
    Standing.ACCEPTED: "accepted",
    Standing.DONE: "done",
    Standing.FAILED: "failed",
    Standing.REFUSED: "refused",
}
