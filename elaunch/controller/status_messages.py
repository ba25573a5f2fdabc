"""What an agent says of itself, as protobuf and back."""

from __future__ import annotations

from elaunch.controller.exit_messages import pack_exits, unpack_exit
from elaunch.controller.node_status import Answer, NodeStatus, RunPhase, StackGroup
from elaunch.controller.probe_messages import (
    MOST_INTERFACES,
    pack_interface,
    pack_report,
    unpack_interface,
    unpack_report,
)
from elaunch.controller.text import sendable, texts_sendable
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.reports import MOST_LINES, Ask, Commit, Line
from elaunch.start_record import FIELDS, StartRecord

MOST_STACKS = 16  # different ones of one node

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
        exits=pack_exits(status.exits),
        store_port=status.store_port,
        leaving=status.leaving,
        leaving_reason=sendable(status.leaving_reason),
        leaving_exit_code=status.leaving_exit_code,
        stop_job=status.stop_job,
        start_error=sendable(status.start_error),
        evidence=sendable(status.evidence),
        answers=[pb.Answer(id=a.id, ok=a.ok, text=sendable(a.text)) for a in status.answers],
        commits=[_pack_ask(ask) for ask in status.asks],
        lines=[pb.CheckpointLine(**texts_sendable(line)) for line in status.lines],
        start_code=status.start_code,
        start_exit_code=status.start_exit_code,
        interfaces=map(pack_interface, status.interfaces),
        probe=pack_report(status.probe) if status.probe is not None else None,
        starts=[pack_start(start) for start in status.starts],
        leaving_code=status.leaving_code,
        stacks=[pb.StackGroup(ranks=group.ranks, text=sendable(group.text)) for group in status.stacks],
    )
    return pb.AgentMessage(node_id=status.node_id, leader_epoch=epoch, status=packed)


def unpack_status(node_id: str, message: pb.NodeStatus) -> NodeStatus:
    return NodeStatus(
        node_id=node_id,
        generation=message.generation,
        phase=unpack_run_phase(message.phase),
        exits=tuple(unpack_exit(e) for e in message.exits),
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
        stacks=tuple(StackGroup(tuple(group.ranks), group.text) for group in message.stacks[:MOST_STACKS]),
    )


def _pack_ask(ask: Ask) -> pb.CheckpointCommit:
    values = texts_sendable(ask.commit)
    return pb.CheckpointCommit(generation=ask.generation, rank=ask.rank, number=ask.number, **values)


def _unpack_ask(message: pb.CheckpointCommit) -> Ask:
    commit = Commit(**{name: getattr(message, name) for name in Commit.__slots__})
    return Ask(message.generation, message.rank, message.number, commit)


def pack_start(record: StartRecord) -> pb.StartRecord:
    return pb.StartRecord(**texts_sendable(record))


def unpack_start(message: pb.StartRecord) -> StartRecord:
    """Raises ValueError for what cannot be."""
    return StartRecord(**{name: getattr(message, name) for name in FIELDS})
