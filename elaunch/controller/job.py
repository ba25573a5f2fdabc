"""What the leader knows of its job: values only, no clock, no socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import (
    UNTOLD,
    Checkpoint,
    DeadPort,
    Drain,
    Member,
    Node,
    Phase,
    Plan,
    Reason,
    Rewind,
    State,
)
from elaunch.rendezvous.records import Failure as Failure
from elaunch.rendezvous.records import History as History
from elaunch.rendezvous.records import HostRecord as HostRecord
from elaunch.rendezvous.records import Learnt as Learnt
from elaunch.rendezvous.records import LinkFault as LinkFault
from elaunch.rendezvous.records import RankExit as RankExit
from elaunch.reports import Ask, Line
from elaunch.start_record import StartRecord
from elaunch.topology.probe.facts import Finding, Interface, NodeFacts, Report

BEGINNING = Reason("start", "the job starts")


class RunPhase(Enum):
    """How far a node is with the generation that it last heard of."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def at_rest(self) -> bool:
        """Nothing of the generation is alive on the node."""
        return self in (RunPhase.NONE, RunPhase.STOPPED, RunPhase.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node says to a request of an operator, named by the operation's id."""

    id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """All that an agent says of itself; each status replaces the one before.

    ``evidence`` is where what was saved of this generation's ranks lies, and what it says. ``asks`` and ``lines`` are
    what ranks tell of checkpoints, as long as no leader has answered it. ``start_code`` is the code of ``start_error``,
    ``start_exit_code`` what the node's agent ends with for it; "" and 0 stand for a plain StartError.
    ``interfaces`` may carry traffic between ranks, ``probe`` is the last that it was asked for.
    ``starts`` is how the starts of this generation's ranks stand.
    ``leaving_code`` is why the whole job is to stop, "" for an operator's Ctrl-C.
    """

    node_id: str
    generation: int = 0
    phase: RunPhase = RunPhase.NONE
    exits: tuple[RankExit, ...] = ()
    store_port: int = 0
    leaving: bool = False
    leaving_reason: str = ""
    leaving_exit_code: int = 0
    stop_job: bool = False
    start_error: str = ""
    answers: tuple[Answer, ...] = ()
    evidence: str = ""
    asks: tuple[Ask, ...] = ()
    lines: tuple[Line, ...] = ()
    start_code: str = ""
    start_exit_code: int = 0
    interfaces: tuple[Interface, ...] = ()
    probe: Report | None = None
    starts: tuple[StartRecord, ...] = ()
    leaving_code: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with a live key: its record, and its last status (None until its stream is attached).

    ``barred`` says why it may not be given ranks, where that is so; ``leave`` why it is to leave the job;
    ``quarantined`` why its host is not trusted.
    """

    node: Node
    status: NodeStatus | None = None
    barred: str = ""
    leave: str = ""
    quarantined: str = ""

    @property
    def out(self) -> str:
        """Why the node may not be given ranks though it is well; "" if it may."""
        return self.barred or self.quarantined

    @property
    def eligible(self) -> bool:
        """May be given ranks now or as soon as it is at rest."""
        status = self.status
        return status is not None and not status.leaving and not status.start_error and not self.out

    @property
    def leaving(self) -> bool:
        """Was asked to leave."""
        return self.status is not None and self.status.leaving

    def at_rest(self, generation: int) -> bool:
        """Nothing of ``generation`` or an older one is alive here, and the node knows that it may not start it."""
        status = self.status
        return status is not None and status.generation >= generation and status.phase.at_rest


@dataclass(frozen=True, slots=True)
class Policy:
    """What the job's spec and rendezvous configuration ask for. All times in seconds.

    ``settle`` is how long a wish to grow waits for more nodes to arrive; it doubles with each growth that follows
    within ``calm`` of the one before, so that a bouncing node cannot keep a job from working. ``on_failure`` is
    restart or stop; ``restart_window`` 0 where every restart counts for good; ``hang_timeout`` None where it is
    learnt, infinite where there is none. ``fixed_world`` is for programs that need the world that they began with.
    ``suspect_after`` is the number of failures in a row after which the checkpoint before them is suspect (0: never).
    ``probe``: auto, where nodes have several interfaces, or off.
    ``on_link_fault`` is report, redistribute or restart.
    A start of the job numbers its generations above ``floor``, and is of ``incarnation``, where a scheduler says so.
    """

    min_nodes: int
    max_nodes: int
    max_restarts: int
    join_timeout: float = 600.0
    last_call_timeout: float = 30.0
    settle: float = 0.5
    calm: float = 60.0
    reattach: float = 3.0
    on_failure: str = "restart"
    restart_window: float = 0.0
    hang_timeout: float | None = None
    hang_floor: float = 60.0
    straggler_factor: float = 2.0
    fixed_world: bool = False
    spares: int = 0
    crash_loop: int = 5
    quarantine_faults: int = 3
    quarantine_seconds: float = 3600.0
    suspect_after: int = 3
    probe: str = "auto"
    on_link_fault: str = "report"
    floor: int = 0
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class Probing:
    """A probe that is under way: of ``nodes``, until ``until``, for the operator's command ``id``, if it is one's.

    ``silent`` are those that have not reported yet.
    """

    id: str
    nodes: tuple[NodeFacts, ...]
    until: float
    silent: frozenset[str]


@dataclass(frozen=True, slots=True)
class Job:
    """The whole state of the leader's state machine.

    ``plan`` is the newest plan, committed or not (``uncommitted`` tells). ``charged`` says whether the restart that
    an abort leads to counts against the budget, ``evidence`` whether
    the ranks' stacks are taken before they are stopped, ``verdict`` what the job ends as when the abort is through.
    ``ready`` counts the eligible nodes and ``leaving`` those that were asked to leave, so that a thousand messages need
    not look at a thousand nodes each; ``passed`` is for the same (see roster.all_members).
    ``horizon`` is the last ``joined`` among the nodes that there were when the job ended, ``world`` the number of ranks
    that the job began with, 0 before it has. ``step`` is the highest that its present generation has told, -1 for none;
    ``ran_since`` is when the present generation was up, ``wall_offset`` what the wall clock is ahead of ``now``.
    ``hosts`` are those with faults to remember, ``blamed`` is the one to which the last fault belongs.
    ``operations`` are the operators' commands that are not yet over, or not yet written; ``answer_by`` says until when
    those among them that wait for nodes do so. ``scaled``: the numbers of nodes in ``policy`` are an operator's;
    ``least`` is the minimum that the job was started with. ``learnt`` is what the next leader is to know of its pace.
    ``checkpoint`` is the last committed one, ``restored`` the step from which the present generation went on,
    ``rewinds`` say which checkpoints do not count any more. ``probing`` are the probes under way, ``probed`` is the
    one before the first generation that is over, ``probe_by`` when that is to be over at the latest. ``findings`` are
    those of the last probe, ``unreachable`` the interfaces that are not to be used for them. ``links``
    are ports that were in trouble of late, ``link_restarts`` the times (wall clock) of the restarts for such.
    """

    policy: Policy
    phase: Phase = Phase.WAITING
    generation: int = 0
    restart_count: int = 0
    reason: Reason = BEGINNING
    exit_code: int = 0
    plan: Plan | None = None
    uncommitted: bool = False
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    succeeded: frozenset[str] = frozenset()
    charged: bool = False
    evidence: bool = False
    verdict: Phase | None = None
    horizon: int = 0
    world: int = 0
    step: int = -1
    history: History = field(default_factory=History)
    hosts: tuple[HostRecord, ...] = ()
    blamed: str = ""
    ran_since: float | None = None
    wall_offset: float = 0.0
    formed: bool = False
    since: float = 0.0
    last_call: float | None = None
    grow_at: float | None = None
    grown_at: float | None = None
    growths: int = 0
    ready: int = 0
    operations: tuple[Operation, ...] = ()
    answer_by: Mapping[str, float] = field(default_factory=dict)
    scaled: bool = False
    least: int = 1
    from_step: int = -1
    drained: tuple[Drain, ...] = ()
    checkpoint: Checkpoint | None = None
    restored: int = UNTOLD
    rewinds: tuple[Rewind, ...] = ()
    incarnation: str = ""
    leaving: int = 0
    passed: tuple[Phase, int, int] = (Phase.WAITING, 0, 0)
    learnt: Learnt = field(default_factory=Learnt)
    probing: tuple[Probing, ...] = ()
    probed: str = ""
    probe_by: float | None = None
    findings: tuple[Finding, ...] = ()
    unreachable: tuple[DeadPort, ...] = ()
    links: tuple[LinkFault, ...] = ()
    link_restarts: tuple[float, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of the newest plan."""
        return self.plan.members if self.plan else ()

    @property
    def state(self) -> State:
        """What of this belongs in etcd."""
        verdict = self.verdict.value if self.verdict else ""
        return State(
            self.phase,
            self.generation,
            self.restart_count,
            self.reason,
            self.exit_code,
            verdict,
            self.charged,
            self.horizon,
            self.failures[0] if self.failures else None,
            self.evidence,
            self.world,
            self.history,
            self.hosts,
            self.policy.min_nodes if self.scaled else 0,
            self.policy.max_nodes if self.scaled else 0,
            self.from_step,
            self.drained,
            self.restored,
            self.rewinds,
            self.incarnation,
            self.learnt,
            self.links,
            self.link_restarts,
        )

    def with_node(self, view: NodeView) -> Job:
        node_id = view.node.node_id
        old = self.nodes.get(node_id)
        ready = self.ready + view.eligible - (old is not None and old.eligible)
        leaving = self.leaving + view.leaving - (old is not None and old.leaving)
        return replace(self, nodes={**self.nodes, node_id: view}, ready=ready, leaving=leaving)

    def without_node(self, node_id: str) -> Job:
        old = self.nodes[node_id]
        nodes = {k: v for k, v in self.nodes.items() if k != node_id}
        return replace(self, nodes=nodes, ready=self.ready - old.eligible, leaving=self.leaving - old.leaving)
