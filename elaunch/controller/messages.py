"""The control stream's messages as protobuf and back: converted once, at the edge."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

from elaunch.controller.commands import Abort, Aside, Command, End, Leave, Probe, Signal, Stacks, Start, Wait
from elaunch.controller.job import Answer, Failure, NodeStatus, RankExit, RunPhase
from elaunch.controller.port_messages import pack_port, unpack_port
from elaunch.controller.probe_messages import (
    MOST_INTERFACES,
    pack_interface,
    pack_probe,
    pack_report,
    unpack_interface,
    unpack_probe,
    unpack_report,
)
from elaunch.controller.text import sendable as sendable
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Rewind
from elaunch.reports import MOST_LINES, Ask, Commit, Line, Receipts, Reply
from elaunch.start_record import FIELDS, StartRecord
from elaunch.topology.probe.facts import PortNote

_PLAIN = [name for name in RankProgress.__slots__ if name not in ("groups", "section_left")]

METHOD = "/elaunch.v1.Control/Attach"
MAX_MESSAGE = 4 << 20  # bytes: 64 tracebacks of 32 KiB each fit twice
TRACEBACKS = 64  # of one message: the first to fail tell the most

_PHASES = {
    RunPhase.NONE: pb.RUN_PHASE_UNSPECIFIED,
    RunPhase.STARTING: pb.RUN_PHASE_STARTING,
    RunPhase.RUNNING: pb.RUN_PHASE_RUNNING,
    RunPhase.STOPPING: pb.RUN_PHASE_STOPPING,
    RunPhase.STOPPED: pb.RUN_PHASE_STOPPED,
    RunPhase.SUCCEEDED: pb.RUN_PHASE_SUCCEEDED,
    RunPhase.FAILED: pb.RUN_PHASE_FAILED,
}
_PHASES_BACK = {number: phase for phase, number in _PHASES.items()}


def job_mark(job: str) -> str:
    """What stands for a job's name in metadata, which takes ASCII only, and little of it."""
    return hashlib.sha256(job.encode()).hexdigest()


def pack_run_phase(phase: RunPhase) -> pb.RunPhase:
    return _PHASES[phase]


def unpack_run_phase(phase: pb.RunPhase) -> RunPhase:
    """Raises ValueError on a phase that this release does not know."""
    if phase not in _PHASES_BACK:
        raise ValueError(f"unknown run phase {phase}")
    return _PHASES_BACK[phase]


def pack_status(status: NodeStatus, epoch: int) -> pb.AgentMessage:
    packed = pb.NodeStatus(
        generation=status.generation,
        phase=_PHASES[status.phase],
        exits=_pack_exits(status.exits),
        store_port=status.store_port,
        leaving=status.leaving,
        leaving_reason=sendable(status.leaving_reason),
        leaving_exit_code=status.leaving_exit_code,
        stop_job=status.stop_job,
        start_error=sendable(status.start_error),
        evidence=sendable(status.evidence),
        answers=[pb.Answer(id=a.id, ok=a.ok, text=sendable(a.text)) for a in status.answers],
        commits=[_pack_ask(ask) for ask in status.asks],
        lines=[pb.CheckpointLine(**_texts_sendable(line)) for line in status.lines],
        start_code=status.start_code,
        start_exit_code=status.start_exit_code,
        interfaces=map(pack_interface, status.interfaces),
        probe=pack_report(status.probe) if status.probe is not None else None,
        starts=[pack_start(start) for start in status.starts],
        leaving_code=status.leaving_code,
    )
    return pb.AgentMessage(node_id=status.node_id, leader_epoch=epoch, status=packed)


def pack_heartbeat(heartbeat: Heartbeat, epoch: int) -> pb.AgentMessage:
    ranks = [_pack_progress(rank) for rank in heartbeat.ranks]
    packed = pb.Heartbeat(generation=heartbeat.generation, interval=heartbeat.interval, ranks=ranks)
    packed.ports.extend(map(pack_port, heartbeat.ports))
    packed.all_ports = heartbeat.all_ports
    return pb.AgentMessage(node_id=heartbeat.node_id, leader_epoch=epoch, heartbeat=packed)


def unpack_agent(message: pb.AgentMessage) -> NodeStatus | Heartbeat:
    """Raises ValueError on what this release does not know."""
    kind = message.WhichOneof("content")
    if kind == "status":
        return _unpack_status(message.node_id, message.status)
    if kind == "heartbeat":
        beat = message.heartbeat
        ranks = tuple(_unpack_progress(rank) for rank in beat.ranks)
        ports = tuple(map(unpack_port, beat.ports))
        return Heartbeat(message.node_id, beat.generation, beat.interval, ranks, ports, beat.all_ports)
    raise ValueError(f"neither a status nor a heartbeat: {kind}")


def _unpack_status(node_id: str, message: pb.NodeStatus) -> NodeStatus:
    return NodeStatus(
        node_id=node_id,
        generation=message.generation,
        phase=unpack_run_phase(message.phase),
        exits=tuple(_unpack_exit(e) for e in message.exits),
        store_port=message.store_port,
        leaving=message.leaving,
        leaving_reason=message.leaving_reason,
        leaving_exit_code=message.leaving_exit_code,
        stop_job=message.stop_job,
        start_error=message.start_error,
        evidence=message.evidence,
        answers=tuple(Answer(a.id, a.ok, a.text) for a in message.answers),
        asks=tuple(map(_unpack_ask, message.commits)),
        lines=tuple(
            Line(**{name: getattr(line, name) for name in Line.__slots__}) for line in message.lines[-MOST_LINES:]
        ),
        start_code=message.start_code,
        start_exit_code=message.start_exit_code,
        interfaces=tuple(map(unpack_interface, message.interfaces[:MOST_INTERFACES])),
        probe=unpack_report(message.probe) if message.HasField("probe") else None,
        starts=tuple(unpack_start(start) for start in message.starts),
        leaving_code=message.leaving_code,
    )


def pack_command(command: Command | Aside, epoch: int) -> pb.Command:
    if isinstance(command, Signal):
        signal = pb.Signal(
            id=command.id, generation=command.generation, signum=command.signum, local_ranks=command.ranks
        )
        return pb.Command(leader_epoch=epoch, signal=signal)
    if isinstance(command, Stacks):
        stacks = pb.Stacks(id=command.id, generation=command.generation, local_ranks=command.ranks)
        return pb.Command(leader_epoch=epoch, stacks=stacks)
    if isinstance(command, Probe):
        return pb.Command(leader_epoch=epoch, probe=pack_probe(command))
    if isinstance(command, Receipts):
        replies = [pb.CommitReply(**_texts_sendable(reply)) for reply in command.replies]
        return pb.Command(leader_epoch=epoch, receipts=pb.Receipts(heard=command.heard, replies=replies))
    if isinstance(command, Leave):
        return pb.Command(leader_epoch=epoch, leave=pb.Leave(reason=sendable(command.reason)))
    if isinstance(command, Start):
        values = {name: getattr(command, name) for name in Start.__slots__}
        rewinds = [pb.Rewind(generation=rewind.generation, step=rewind.step) for rewind in command.rewinds]
        avoid = [pb.AvoidedPort(port=sendable(port), why=sendable(why)) for port, why in command.avoid_ports]
        notes = [pb.PortNote(interface=note.interface, text=sendable(note.text)) for note in command.unreachable]
        lists = {"rewinds": rewinds, "unreachable": notes, "avoid_ports": avoid}
        start = pb.Start(**values | {"reason": sendable(command.reason)} | lists)
        return pb.Command(leader_epoch=epoch, start=start)
    if isinstance(command, Abort):
        reason = sendable(command.reason)
        abort = pb.Abort(generation=command.generation, code=command.code, reason=reason)
        abort.evidence, abort.notice = command.evidence, command.notice
        return pb.Command(leader_epoch=epoch, abort=abort)
    if isinstance(command, End):
        failures = [pb.Failure(host=f.host, exit=_pack_exit(f.exit)) for f in command.failures[:TRACEBACKS]]
        end = pb.End(
            outcome=command.outcome,
            exit_code=command.exit_code,
            code=command.code,
            reason=sendable(command.reason),
            failures=failures,
        )
        return pb.Command(leader_epoch=epoch, end=end)
    return pb.Command(leader_epoch=epoch, wait=pb.Wait(reason=sendable(command.reason)))


def serialized(command: Command | Aside, epoch: int) -> bytes:
    """``pack_command`` as bytes. What many nodes are told is made once and not for each."""
    if isinstance(command, Abort | End | Wait):
        return _shared(command, epoch)
    return pack_command(command, epoch).SerializeToString()


@lru_cache(maxsize=4)  # an End may be as large as a message
def _shared(command: Abort | End | Wait, epoch: int) -> bytes:
    return pack_command(command, epoch).SerializeToString()


def unpack_command(message: pb.Command) -> Command | Aside:
    """Raises ValueError on a command that this release does not know."""
    kind = message.WhichOneof("command")
    if kind == "start":
        values = {name: getattr(message.start, name) for name in Start.__slots__}
        rewinds = tuple(Rewind(rewind.generation, rewind.step) for rewind in message.start.rewinds)
        avoid = tuple((avoided.port, avoided.why) for avoided in message.start.avoid_ports)
        notes = tuple(PortNote(note.interface, note.text) for note in message.start.unreachable)
        lists = {"avoid_steps": tuple(message.start.avoid_steps), "rewinds": rewinds, "unreachable": notes}
        return Start(**values | lists | {"avoid_ports": avoid})
    if kind == "abort":
        abort = message.abort
        return Abort(abort.generation, abort.code, abort.reason, abort.evidence, abort.notice)
    if kind == "end":
        end = message.end
        failures = tuple(Failure(f.host, _unpack_exit(f.exit)) for f in end.failures)
        return End(end.outcome, end.exit_code, end.code, end.reason, failures)
    if kind == "wait":
        return Wait(message.wait.reason)
    if kind == "leave":
        return Leave(message.leave.reason)
    if kind == "signal":
        asked = message.signal
        return Signal(asked.id, asked.generation, asked.signum, tuple(asked.local_ranks))
    if kind == "stacks":
        return Stacks(message.stacks.id, message.stacks.generation, tuple(message.stacks.local_ranks))
    if kind == "probe":
        return unpack_probe(message.probe)
    if kind == "receipts":
        replies = (Reply(r.generation, r.rank, r.number, r.accepted, r.text) for r in message.receipts.replies)
        return Receipts(message.receipts.heard, tuple(replies))
    raise ValueError(f"unknown command {kind}")


def _pack_ask(ask: Ask) -> pb.CheckpointCommit:
    values = _texts_sendable(ask.commit)
    return pb.CheckpointCommit(generation=ask.generation, rank=ask.rank, number=ask.number, **values)


def _unpack_ask(message: pb.CheckpointCommit) -> Ask:
    commit = Commit(**{name: getattr(message, name) for name in Commit.__slots__})
    return Ask(message.generation, message.rank, message.number, commit)


def _unpack_line(message: pb.CheckpointLine) -> Line:
    return Line(**{name: getattr(message, name) for name in Line.__slots__})


def pack_start(record: StartRecord) -> pb.StartRecord:
    return pb.StartRecord(**_texts_sendable(record))


def unpack_start(message: pb.StartRecord) -> StartRecord:
    """Raises ValueError for what cannot be."""
    return StartRecord(**{name: getattr(message, name) for name in FIELDS})


def _texts_sendable(record: Any) -> dict[str, Any]:
    """The members of a record by name."""
    values = {name: getattr(record, name) for name in record.__slots__}
    return {name: sendable(value) if isinstance(value, str) else value for name, value in values.items()}


def _pack_exits(exits: tuple[RankExit, ...]) -> list[pb.RankExit]:
    """All ends; of the tracebacks the first ones, so that a node of many ranks is heard all the same."""
    full = [_pack_exit(end) for end in exits[:TRACEBACKS]]
    return full + [_pack_exit(replace(end, traceback="")) for end in exits[TRACEBACKS:]]


def _pack_exit(end: RankExit) -> pb.RankExit:
    values: dict[str, Any] = {name: getattr(end, name) for name in RankExit.__slots__}
    texts = {name: sendable(value) for name, value in values.items() if isinstance(value, str)}
    return pb.RankExit(**values | texts)


def _unpack_exit(end: pb.RankExit) -> RankExit:
    return RankExit(**{name: getattr(end, name) for name in RankExit.__slots__})


def _pack_progress(rank: RankProgress) -> pb.RankProgress:
    values: dict[str, Any] = {name: getattr(rank, name) for name in _PLAIN}
    texts = {name: sendable(values[name]) for name in ("state", "section", "where")}
    groups = [
        pb.GroupProgress(
            name=sendable(group.name),
            size=group.size,
            started=group.started,
            finished=group.finished,
            collective=sendable(group.collective),
            ranks=group.ranks,
        )
        for group in rank.groups
    ]
    return pb.RankProgress(**values | texts, section_left=rank.section_left, groups=groups)


def _unpack_progress(message: pb.RankProgress) -> RankProgress:
    groups = tuple(
        GroupProgress(g.name, g.size, g.started, g.finished, g.collective, tuple(g.ranks)) for g in message.groups
    )
    left = message.section_left if message.HasField("section_left") else None
    return RankProgress(**{name: getattr(message, name) for name in _PLAIN}, section_left=left, groups=groups)
