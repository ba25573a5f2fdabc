"""What the leader knows of its job: values only, no clock, no socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elaunch.controller.node_status import NodeStatus
from elaunch.controller.policy import Policy
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.memory import Accounts, History, HostRecord, Learnt, LinkFault
from elaunch.rendezvous.plan import DeadPort, Member, Plan, Rewind
from elaunch.rendezvous.records import Checkpoint, Node, Phase, Reason
from elaunch.rendezvous.state import UNTOLD, Drain, Failure, State
from elaunch.topology.probe.facts import Finding, NodeFacts

BEGINNING = Reason("start", "the job starts")


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
    ``accounts`` are what its time has gone into.
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
    accounts: Accounts = field(default_factory=Accounts)

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
            self.accounts,
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
