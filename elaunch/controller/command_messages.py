"""What a leader tells its nodes, as protobuf and back."""

from __future__ import annotations

from functools import lru_cache

from elaunch.controller.commands import Abort, Aside, Command, End, Inject, Leave, Probe, Signal, Stacks, Start, Wait
from elaunch.controller.exit_messages import TRACEBACKS, pack_exit, unpack_exit
from elaunch.controller.inject_messages import pack_inject, unpack_inject
from elaunch.controller.probe_messages import pack_probe, unpack_probe
from elaunch.controller.text import sendable, texts_sendable
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.plan import Rewind
from elaunch.rendezvous.state import Failure
from elaunch.reports import Receipts, Reply
from elaunch.topology.probe.facts import PortNote


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
    if isinstance(command, Inject):
        return pb.Command(leader_epoch=epoch, inject=pack_inject(command))
    if isinstance(command, Receipts):
        replies = [pb.CommitReply(**texts_sendable(reply)) for reply in command.replies]
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
        failures = [pb.Failure(host=f.host, exit=pack_exit(f.exit)) for f in command.failures[:TRACEBACKS]]
        end = pb.End(
            outcome=command.outcome,
            exit_code=command.exit_code,
            code=command.code,
            reason=sendable(command.reason),
            failures=failures,
            failed_ranks=command.failed,
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
        failures = tuple(Failure(f.host, unpack_exit(f.exit)) for f in end.failures)
        return End(end.outcome, end.exit_code, end.code, end.reason, failures, end.failed_ranks)
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
    if kind == "inject":
        return unpack_inject(message.inject)
    if kind == "receipts":
        replies = (Reply(r.generation, r.rank, r.number, r.accepted, r.text) for r in message.receipts.replies)
        return Receipts(message.receipts.heard, tuple(replies))
    raise ValueError(f"unknown command {kind}")
