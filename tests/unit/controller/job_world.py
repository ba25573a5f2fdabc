"""A world around the job's state machine: agents, a leader, an etcd and wires that are as slow as a test wants.

The agents obey as ``elaunch/agent/group.py`` does, the leader writes as ``elaunch/controller/course.py`` does. Each
step is so small that a fault fits between any two. What architecture.md promises is checked where it could be broken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from elaunch.controller.commands import Abort, Command, End, Leave, Start, Wait, command_for, requests_for, start_of
from elaunch.controller.forming import EXIT_JOIN_TIMEOUT
from elaunch.controller.job import Job
from elaunch.controller.job_events import (
    Event,
    NodeJoined,
    NodeLost,
    OperationsWritten,
    OperatorCommand,
    PlanCommitted,
    StatusReceived,
    Tick,
)
from elaunch.controller.node_status import Answer, NodeStatus, RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.resuming import resume
from elaunch.controller.roster import fewest
from elaunch.controller.state import next_deadline, step
from elaunch.rendezvous.journal import Operation, Standing, decode_operation
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Node, Phase, decode, encode
from elaunch.rendezvous.state import RankExit, State


def as_exit_status(code: int) -> int:
    return code if code > 0 else 128 - code


@dataclass
class Etcd:
    """What is committed. ``log`` is the history of nodes and commands, which a leader follows at its own pace."""

    state: bytes | None = None
    plans: dict[int, bytes] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    commands: dict[str, Operation] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    revision: int = 0

    def put_node(self, node: Node) -> None:
        self.revision += 1
        self.nodes[node.node_id] = replace(node, joined=self.revision)
        self.log.append(NodeJoined(self.nodes[node.node_id]))

    def put_command(self, operation: Operation) -> None:
        self.revision += 1
        operation = decode_operation(encode(operation), self.revision)
        self.commands[operation.id] = operation
        self.log.append(OperatorCommand(operation))

    def drop_node(self, node_id: str) -> None:
        if self.nodes.pop(node_id, None):
            self.log.append(NodeLost(node_id))


@dataclass
class Agent:
    """One agent process with its board and group; ``procs`` are its live ranks, all of generation ``running``."""

    world: World
    number: int
    slots: int
    node_rank: int = -1
    broken: bool = False
    life: int = 0
    alive: bool = True
    frozen: bool = False
    highest: int = 0
    running: int = 0
    procs: set[int] = field(default_factory=set)
    wanted: Command | None = None
    news: bool = False
    starting: Start | None = None
    aborting: Abort | None = None
    ended: End | None = None
    term: Term | None = None
    wire_up: list[NodeStatus] = field(default_factory=list)
    wire_down: list[Command] = field(default_factory=list)
    sent: Command | None = None
    status: NodeStatus = field(default_factory=lambda: NodeStatus(""))

    @property
    def node_id(self) -> str:
        return f"n{self.number}.{self.life}"

    @property
    def has_key(self) -> bool:
        return self.node_id in self.world.etcd.nodes

    @property
    def acts(self) -> bool:
        return self.alive and not self.frozen

    def join(self) -> None:
        self.life += 1
        node = Node(
            self.node_id,
            f"h{self.number}",
            "10.0.0.1",
            self.slots,
            1000,
            f"10.0.0.{self.number}:1",
            node_rank=self.node_rank,
        )
        self.world.etcd.put_node(node)
        self.term = None
        self.wire_down = []
        self.update(node_id=self.node_id, generation=0, phase=RunPhase.NONE, exits=())

    def update(self, **changes: object) -> None:
        status = replace(self.status, **changes)  # type: ignore[arg-type]
        if status != self.status:
            self.status = status
            self.wire_up.append(status)

    def attach(self) -> None:
        """A new stream to whoever leads: the whole status first."""
        self.term = self.world.term
        self.wire_up = [self.status]
        self.wire_down = []
        self.sent = None

    # --- the group ----------------------------------------------------------------------------------------------

    def act(self) -> bool:
        """One small step of what the newest command asks for; whether there was one."""
        if self.ended is not None:
            if self._leads_until_all_left():
                self._kill()
                return False
            self._leave()
        elif self.aborting is not None:
            command, self.aborting = self.aborting, None
            same = self.status.generation == command.generation
            self._kill()
            self.highest = command.generation
            exits = self.status.exits if same else ()
            self.update(generation=command.generation, phase=RunPhase.STOPPED, exits=exits)
        elif self.starting is not None:
            start, self.starting = self.starting, None
            if self.wanted == start:
                self._spawn(start)
            else:
                self.news = True
        elif self.news:
            self.news = False
            self._obey(self.wanted)
        else:
            return False
        return True

    def take(self, command: Command) -> None:
        if isinstance(command, Start):
            plan = self.world.plan(command.generation)
            assert plan is not None, "a plan that is not committed was started"
            assert command == start_of(plan, self.node_id)
        if isinstance(command, Leave):
            self.update(leaving=True, leaving_reason=command.reason, leaving_exit_code=143)
        elif isinstance(command, End):
            self.ended = self.ended or command
        else:
            self.wanted, self.news = command, True

    def _obey(self, command: Command | None) -> None:
        if isinstance(command, Start) and command.generation > self.highest:
            self._kill()
            self.highest = command.generation
            self.update(generation=command.generation, phase=RunPhase.STARTING, exits=())
            self.starting = command
        elif isinstance(command, Abort) and command.generation >= self.highest:
            if self.status.generation == command.generation and self.status.phase.at_rest:
                return
            if not self.status.phase.at_rest:
                self.update(phase=RunPhase.STOPPING)
            self.aborting = command
        elif isinstance(command, Wait):
            assert command.reason

    def _spawn(self, start: Start) -> None:
        if self.broken:
            self.update(phase=RunPhase.STOPPED, start_error="no such program")
            return
        self.running = start.generation
        self.procs = set(range(start.rank0, start.rank0 + self.slots))
        self.world.check_one_generation()
        self.update(phase=RunPhase.RUNNING, store_port=2000 + start.generation)

    def _kill(self) -> None:
        self.procs = set()

    def _leave(self) -> None:
        self._kill()
        self.alive = False
        self.world.etcd.drop_node(self.node_id)

    def rank_ends(self, rank: int, code: int) -> None:
        """A rank ends by itself. While the group stops it, or the node leaves, that is no news."""
        self.procs.discard(rank)
        if self.status.leaving or self.aborting is not None or self.ended is not None:
            return
        plan = self.world.plan(self.running)
        assert plan is not None
        member = plan.member(self.node_id)
        assert member is not None
        report = RankExit(rank - member.rank0, rank, 100 + rank, code, 0.0)
        exits = (*self.status.exits, report)
        if any(e.exit_code for e in exits):
            if code:
                self.world.failed.setdefault(self.running, set()).add(as_exit_status(code))
            self.update(phase=RunPhase.FAILED, exits=exits)
        elif self.procs:
            self.update(exits=exits)
        else:
            self.world.succeeded.add((self.running, self.node_id))
            self.update(phase=RunPhase.SUCCEEDED, exits=exits)

    def _leads_until_all_left(self) -> bool:
        term = self.world.term
        if term is None or term.agent is not self or not term.job.phase.final:
            return False
        return bool(term.job.nodes.keys() - {self.node_id})

    # --- faults -------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """The lease ends. By then the ranks are dead: the agent or the dead-man's switch saw to it."""
        self._kill()
        self.starting = self.aborting = None
        self.wanted = None
        self.world.etcd.drop_node(self.node_id)


@dataclass
class Term:
    """One leadership. ``written`` is the state that stands in etcd; ``seen`` how much of the node history it knows."""

    world: World
    agent: Agent
    epoch: int
    job: Job
    seen: int
    written: State | None
    known: set[str] = field(default_factory=set)
    told: frozenset[str] = frozenset()

    def step(self, event: Event) -> None:
        before = self.job
        now = self.world.now
        self.job = job = step(before, event, now)
        self.world.check_step(before, job)

    def commit(self) -> None:
        """The plan and the state, in one transaction."""
        job = self.job
        assert job.plan is not None
        self.world.check_plan(job.plan, job)
        self.world.etcd.plans[job.plan.generation] = encode(job.plan)
        self.persist()
        self.world.restart_count = job.plan.restart_count

    def persist(self) -> None:
        if self.job.phase.final:
            self.world.check_final(self.job)
        elif (state := self.world.state) and state.phase.final:
            self.world.restart_count = 0  # the job was started again
        self.written = self.job.state
        self.world.etcd.state = encode(self.job.state)
        for operation in self.job.operations:
            self.world.check_operation(self.world.etcd.commands[operation.id], operation)
            self.world.etcd.commands[operation.id] = operation
        self.told = frozenset(operation.id for operation in self.job.operations)

    @property
    def owes(self) -> bool:
        """Whether a command's standing is not written yet."""
        return any(self.world.etcd.commands[o.id].standing is not o.standing for o in self.job.operations)

    def command(self, agent: Agent) -> Command | None:
        view = self.job.nodes.get(agent.node_id)
        if view is None or (self.job.phase.final and self.written != self.job.state):
            return None
        return command_for(self.job, view)


class World:
    """All of it. ``failed`` and ``succeeded`` are what really happened to ranks, by generation."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.etcd = Etcd()
        self.now = 100.0
        self.agents: list[Agent] = []
        self.term: Term | None = None
        self.epoch = 0
        self.failed: dict[int, set[int]] = {}
        self.succeeded: set[tuple[int, str]] = set()
        self.restart_count = 0

    # --- what a test does ---------------------------------------------------------------------------------------

    def start_agent(self, slots: int = 1, node_rank: int = -1, *, broken: bool = False) -> Agent:
        agent = Agent(self, len(self.agents), slots, node_rank, broken)
        self.agents.append(agent)
        agent.join()
        return agent

    def plan(self, generation: int) -> Plan | None:
        value = self.etcd.plans.get(generation)
        return decode(Plan, value) if value is not None else None

    @property
    def state(self) -> State | None:
        return decode(State, self.etcd.state) if self.etcd.state is not None else None

    @property
    def present(self) -> list[Agent]:
        return [agent for agent in self.agents if agent.acts and agent.has_key]

    def elect(self, agent: Agent) -> Term:
        """Another leader reads what stands in etcd. Streams stay with the former one until their agents notice."""
        assert agent.acts
        assert agent.has_key
        self.epoch += 1
        state = self.state
        newest = max(self.etcd.plans, default=0)
        accepted = tuple(o for o in self.etcd.commands.values() if o.standing is Standing.ACCEPTED)
        job = resume(self.policy, state, self.plan(newest), list(self.etcd.nodes.values()), self.now, accepted)
        self.term = Term(self, agent, self.epoch, job, len(self.etcd.log), state, set(job.nodes))
        self.term.step(Tick())
        for operation in list(self.etcd.commands.values()):
            if operation.standing is Standing.PENDING:
                self.term.step(OperatorCommand(operation))
        return self.term

    def leaderless(self) -> bool:
        return self.term is None or not self.term.agent.has_key or not self.term.agent.acts

    def see_nodes(self) -> bool:
        """The leader hears of the next change of a node's key; whether there was one."""
        term = self.term
        if term is None or term.seen >= len(self.etcd.log):
            return False
        event = self.etcd.log[term.seen]
        term.seen += 1
        if isinstance(event, NodeJoined):
            term.known.add(event.node.node_id)
        term.step(event)
        return True

    def send_up(self, agent: Agent, *, skip: bool = False, again: bool = False) -> bool:
        """The leader hears an agent's next status: all or only the newest, once or twice."""
        if agent.term is not self.term or self.term is None or not agent.wire_up:
            return False
        if skip:
            agent.wire_up = agent.wire_up[-1:]
        status = agent.wire_up[0]
        if status.node_id not in self.term.known:
            return False  # kept by the leader until it sees the key
        if not again:
            agent.wire_up.pop(0)
        self.term.step(StatusReceived(status))
        return True

    def send_down(self, agent: Agent) -> bool:
        """The leader puts the newest command on the agent's stream, where it differs from the last."""
        if agent.term is not self.term or self.term is None:
            return False
        command = self.term.command(agent)
        for request in requests_for(self.term.job, agent.node_id):
            if self.etcd.commands[request.id].standing is Standing.ACCEPTED:
                agent.update(answers=(*agent.status.answers[-3:], Answer(request.id, True, "sent")))
        if command is None or command == agent.sent:
            return False
        if isinstance(command, End) and command.code not in ("node_left", "start_failed"):
            state = self.state
            assert state is not None
            assert state.phase.final, "the end was told before it stood in etcd"
        agent.sent = command
        agent.wire_down.append(command)
        return True

    def deliver(self, agent: Agent) -> bool:
        if not agent.wire_down:
            return False
        agent.take(agent.wire_down.pop(0))
        return True

    def settle_writes(self) -> bool:
        """The leader's writes go through, as its loop does them."""
        term = self.term
        assert term is not None
        if term.job.uncommitted and term.job.plan is not None:
            term.commit()
            term.step(PlanCommitted(term.job.plan.generation))
            return True
        if term.job.state != term.written or term.owes:
            term.persist()
            term.step(OperationsWritten(term.told))
            return True
        return False

    # --- calm ---------------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """No more faults: who is dead or frozen loses its lease, who lives attaches, all messages arrive."""
        for agent in self.agents:
            if agent.has_key and not agent.acts:
                agent.expire()
            if agent.acts and not agent.has_key:
                agent.expire()
                agent.join()

    def quiet_round(self) -> bool:
        """Everything that is under way arrives once; whether anything was."""
        moved = False
        present = self.present
        if self.leaderless():
            if not present:
                return False
            self.elect(present[0])
            moved = True
        assert self.term is not None
        while self.see_nodes():
            moved = True
        for agent in self.present:
            if agent.term is not self.term:
                agent.attach()
                moved = True
            while self.send_up(agent):
                moved = True
        moved |= self.settle_writes()
        for agent in self.present:
            moved |= self.send_down(agent)
            while self.deliver(agent):
                moved = True
            while agent.alive and agent.act():
                moved = True
        return moved

    def run_quietly(self, rounds: int = 60) -> None:
        """Until nothing moves at this moment. Fails if that takes more than ``rounds``."""
        for _ in range(rounds):
            if not self.quiet_round():
                return
        raise AssertionError(f"no rest in {rounds} rounds: {self.term and self.term.job}")

    def run_to_rest(self, deadlines: int = 30) -> Phase | None:
        """Let time pass too, until it changes nothing any more. The phase, or None if nobody is left."""
        for _ in range(deadlines):
            self.run_quietly()
            if self.leaderless():
                return None
            assert self.term is not None
            deadline = next_deadline(self.term.job, self.now)
            if deadline is None:
                return self.term.job.phase
            self.pass_time(deadline - self.now)
        raise AssertionError(f"no rest in {deadlines} deadlines: {self.term and self.term.job}")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if self.term is not None and not self.leaderless():
            self.term.step(Tick())

    # --- the promises -------------------------------------------------------------------------------------------

    def check_one_generation(self) -> None:
        running = {agent.running for agent in self.agents if agent.procs}
        assert len(running) <= 1, f"ranks of generations {sorted(running)} run at once"

    def check_step(self, before: Job, after: Job) -> None:
        now = self.now
        deadline = next_deadline(after, now)
        assert deadline is None or deadline > now
        assert step(after, Tick(), now) == after, "not settled"
        assert after.generation >= before.generation
        assert 0 <= after.restart_count <= self.policy.max_restarts
        if before.phase.final:
            assert (after.phase, after.exit_code, after.reason) == (
                before.phase,
                before.exit_code,
                before.reason,
            )
        assert after.reason.text
        if after.plan is not None:
            assert after.generation == after.plan.generation
        if after.plan is not None and after.generation > before.generation:
            # When it was made: an operator may change the limits before it is committed.
            limits = replace(before, policy=after.policy, scaled=after.scaled)
            assert fewest(limits) <= len(after.plan.members) <= after.policy.max_nodes
            for member in after.plan.members:
                assert after.nodes[member.node_id].eligible
                assert after.nodes[member.node_id].at_rest(0)
            assert not self.has_succeeded(before, after), "a job that had succeeded was started again"
        self.check_end(before, after)
        for view in after.nodes.values():
            command = command_for(after, view)
            assert not (after.uncommitted and isinstance(command, Start))

    def check_end(self, before: Job, after: Job) -> None:
        """The first verdict stays, but that of ranks which failed because their node did."""
        if after.verdict is not before.verdict and before.verdict is not None:
            assert before.verdict is Phase.FAILED
            assert before.reason.code == "rank_failed"
            assert after.reason.code in ("node_lost", "stopped")  # stopped: all others were leaving by then
        stopped = after.reason.code == "stopped" and before.reason.code != "stopped"
        if stopped and before.phase is not Phase.WAITING:
            could_stay = [v for v in after.nodes.values() if not v.barred and (v.status is None or v.eligible)]
            assert len(could_stay) < fewest(after), "stopped with enough nodes left"

    def has_succeeded(self, before: Job, after: Job) -> bool:
        """Whether the leader had heard that every rank of the generation before ended with 0."""

        def good(node_id: str) -> bool:
            status = after.nodes[node_id].status if node_id in after.nodes else None
            told = status is not None and status.phase is RunPhase.SUCCEEDED
            return node_id in before.succeeded or (told and status.generation == before.generation)

        return before.plan is not None and all(good(m.node_id) for m in before.plan.members)

    def check_plan(self, plan: Plan, job: Job) -> None:
        earlier = self.plan(max(self.etcd.plans, default=0))
        assert plan.generation == (earlier.generation + 1 if earlier else 1)
        assert plan.generation not in self.etcd.plans
        members = plan.members
        assert [m.group_rank for m in members] == list(range(len(members)))
        ranks = [r for m in members for r in range(m.rank0, m.rank0 + m.slots)]
        assert ranks == list(range(plan.world_size))
        role_ranks = [r for m in members for r in range(m.role_rank0, m.role_rank0 + m.slots)]
        assert role_ranks == list(range(members[0].role_world_size))
        assert plan.store_node == members[0].node_id
        self._check_restarts(plan, earlier)
        if earlier is not None:
            self._check_survivors(plan, earlier)

    def _check_restarts(self, plan: Plan, earlier: Plan | None) -> None:
        before = 0 if (state := self.state) and state.phase.final else self.restart_count
        assert before <= plan.restart_count <= before + 1
        if plan.restart_count > before:
            assert earlier is not None
            assert self.failed.get(earlier.generation), "a restart was charged where no rank had failed"
        assert plan.restart_count <= self.policy.max_restarts

    def _check_survivors(self, plan: Plan, earlier: Plan) -> None:
        if any(agent.node_rank >= 0 for agent in self.agents):
            return
        old = [m.node_id for m in earlier.members if plan.member(m.node_id)]
        new = [m.node_id for m in plan.members if earlier.member(m.node_id)]
        assert old == new, "survivors changed their order"
        if len(plan.members) >= len(earlier.members):
            for node_id in old:
                was, now = earlier.member(node_id), plan.member(node_id)
                assert was is not None
                assert now is not None
                assert was.group_rank == now.group_rank, "a survivor changed its rank without need"

    def check_operation(self, before: Operation, after: Operation) -> None:
        """A command that is over stays so; one that has taken effect is not seen as new again."""
        if before.standing is not Standing.PENDING:
            assert after.standing is not Standing.REFUSED or before == after, "it was accepted before"
        if not before.standing.open:
            assert (before.standing, before.answer) == (after.standing, after.answer), "its answer changed"

    def check_final(self, job: Job) -> None:
        assert not job.uncommitted
        assert not [o for o in job.operations if o.standing.open], "a command is left open at the end"
        if job.phase is Phase.SUCCEEDED:
            assert job.exit_code == 0
            assert job.plan is not None
            for member in job.plan.members:
                assert (job.generation, member.node_id) in self.succeeded
        elif job.reason.code == "rank_failed":
            assert job.exit_code in self.failed[job.generation]
        elif job.reason.code == "join_timeout":
            assert job.exit_code == EXIT_JOIN_TIMEOUT
        else:
            assert job.exit_code != 0
