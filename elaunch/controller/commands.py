"""What each node should be doing, read off the state of the job.

Commands are levels, not edges: the same command may be sent again at any time, after a reconnect or by a new leader,
and an agent that does it already has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.controller.forming import waiting_for
from elaunch.controller.job import Job, NodeView
from elaunch.controller.operations import RESTARTED, SCALED
from elaunch.controller.preemption import LEFT, TERMINATED, WARNED
from elaunch.controller.unstartable import exit_code
from elaunch.errors import StartError
from elaunch.inject.fault import Fault
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.plan import Member, Plan, Rewind
from elaunch.rendezvous.records import Phase
from elaunch.rendezvous.state import Failure
from elaunch.reports import Receipts
from elaunch.topology.probe.facts import PortNote, Target


@dataclass(frozen=True, slots=True)
class Start:
    """Run your ranks of this generation; its plan is committed.

    ``avoid_ports`` are ports of this node that it should do without, with the reason.
    """

    generation: int
    restart_count: int
    group_rank: int
    group_world_size: int
    rank0: int
    world_size: int
    role_rank0: int
    role_world_size: int
    store_address: str
    store_port: int
    host_store: bool
    reason: str
    from_step: int = -1
    avoid_steps: tuple[int, ...] = ()
    recorded_step: int = -1
    rewinds: tuple[Rewind, ...] = ()
    incarnation: str = ""
    unreachable: tuple[PortNote, ...] = ()
    avoid_ports: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop every process of this and any older generation, then say so.

    ``evidence``: save their stacks first. ``notice``: nothing is wrong, so let the programs save what they have.
    """

    generation: int
    code: str
    reason: str
    evidence: bool = False
    notice: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Stop, leave, and exit with this. ``outcome`` is succeeded, failed, stopped or left.

    ``failures`` are those of the first ranks to fail, ``failed`` is how many ranks failed.
    """

    outcome: str
    exit_code: int
    code: str
    reason: str
    failures: tuple[Failure, ...] = ()
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the job as after a SIGTERM; what runs goes on until the leader says otherwise."""

    reason: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send ``signum`` to these local ranks (none: to all) of this generation, and answer under ``id``, once."""

    id: str
    generation: int
    signum: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Answer under ``id`` with the stacks of these local ranks (none: of all) of this generation, once."""

    id: str
    generation: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask ``targets`` for at most so many ``seconds``, and put the report into the status, once for each ``id``.

    ``secret`` is that of the datagrams, for this probe only: a node that is only asked needs it as well.
    """

    id: str
    secret: bytes
    seconds: float
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Inject:
    """Bring about ``fault``, on these local ranks of this generation where it is of ranks, and answer, once."""

    id: str
    generation: int
    ranks: tuple[int, ...]
    fault: Fault


Request = Signal | Stacks | Probe | Inject
"""Not a level but asked beside it, until the node's status holds the answer. A node does each id once."""

Aside = Request | Receipts
"""What is sent beside what a node should be doing."""

Command = Start | Abort | End | Wait | Leave

SPARE = "the job has all the nodes that it may have; this one is a spare"

# Reasons of a stop that has the time of a notice.
PLANNED = frozenset({LEFT, "node_joined", "stopped", RESTARTED, SCALED, WARNED, TERMINATED})


def command_for(job: Job, view: NodeView, waiting: str | None = None) -> Command:
    """The command for one node. A plan that is not committed yet commands nothing.

    ``waiting`` is what a waiting node is told instead of the present ``waiting_for``.
    """
    if job.phase.final:
        return end_of(job)
    node_id = view.node.node_id
    member = job.plan.member(node_id) if job.plan else None
    running = job.phase in (Phase.STARTING, Phase.RUNNING) and not job.uncommitted
    if job.phase is Phase.ABORTING and member and not job.uncommitted:
        return Abort(job.generation, job.reason.code, job.reason.text, job.evidence, job.reason.code in PLANNED)
    if view.leave and view.status and not view.status.leaving:
        return Leave(view.leave)
    if running and member and job.plan:
        return start_of(job.plan, node_id)
    return _outside(job, view, waiting)


def end_of(job: Job) -> End:
    """What every node of a job in a final phase is told."""
    return End(job.phase.value, job.exit_code, job.reason.code, job.reason.text, job.failures, len(job.failures))


def start_of(plan: Plan, node_id: str) -> Start:
    """This member's part of a plan."""
    member = plan.member(node_id)
    assert member is not None
    return Start(
        generation=plan.generation,
        restart_count=plan.restart_count,
        group_rank=member.group_rank,
        group_world_size=len(plan.members),
        rank0=member.rank0,
        world_size=plan.world_size,
        role_rank0=member.role_rank0,
        role_world_size=member.role_world_size,
        store_address=plan.store_address,
        store_port=plan.store_port,
        host_store=plan.store_node == node_id,
        reason=plan.reason.text,
        from_step=plan.from_step,
        avoid_steps=plan.avoid_steps,
        recorded_step=plan.recorded_step,
        rewinds=plan.rewinds,
        incarnation=plan.incarnation,
        unreachable=plan.notes_for(node_id),
        avoid_ports=tuple((a.port, a.why) for a in plan.avoid_ports if a.host == member.host),
    )


def _outside(job: Job, view: NodeView, waiting: str | None) -> Command:
    """A node without a part in the present generation."""
    status = view.status
    if status is not None and not status.phase.at_rest:
        return Abort(job.generation, "not_a_member", f"generation {job.generation} is without this node")
    if status is not None and status.leaving:
        return End("left", status.leaving_exit_code, LEFT, status.leaving_reason)
    if status is not None and status.start_error:
        return End("failed", exit_code(view), status.start_code or StartError.code, status.start_error)
    if view.out:
        return Wait(view.out)
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        full = len(job.members) >= job.policy.max_nodes
        return Wait(SPARE if full else "joining")
    if job.phase is Phase.WAITING:
        return Wait(waiting_for(job) if waiting is None else waiting)
    return Wait("the next generation is being formed")


def requests_for(job: Job, node_id: str) -> list[Request]:
    """What operators want of one node now, beside what it does."""
    wanted = [o for o in job.operations if o.id in job.answer_by and node_id in o.nodes]
    return [request for o in wanted if (request := request_for(job, o, node_id)) is not None]


def request_for(job: Job, operation: Operation, node_id: str) -> Request | None:
    """What an operator's request to this node, among others, wants of it; None where nothing any more."""
    member = job.plan.member(node_id) if job.plan else None
    if member is None or job.uncommitted or node_id in operation.answers:
        return None
    return _request(operation, member)


def _request(operation: Operation, member: Member) -> Request:
    rank = int(operation.arguments.get("rank", -1))
    ranks = () if rank < 0 else (rank - member.rank0,)
    if operation.kind == "inject":
        fault = Fault.of(operation.arguments["fault"])
        ranks = () if fault.rank < 0 else (fault.rank - member.rank0,)
        return Inject(operation.id, operation.generation, ranks, fault)
    if operation.kind == "signal":
        return Signal(operation.id, operation.generation, int(operation.arguments["signal"]), ranks)
    return Stacks(operation.id, operation.generation, ranks)
