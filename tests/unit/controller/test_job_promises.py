"""The promises of architecture.md, section 5, whatever happens to a job in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from job_world import Agent, World

from elaunch.controller.job_events import OperationsWritten, PlanCommitted
from elaunch.controller.node_status import RunPhase
from elaunch.controller.policy import Policy
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import Phase

AGENTS_AT_MOST = 14
COMMANDS_AT_MOST = 12
pick = st.integers(0, 99)


class JobMachine(RuleBasedStateMachine):
    """Every rule is one small thing that may happen; who it happens to is picked among those that it can happen to."""

    @initialize(
        nodes=st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 4), (4, 4), (1, 3)]),
        max_restarts=st.integers(0, 3),
        spares=st.integers(-1, 1),
        calm=st.booleans(),
    )
    def begin(self, nodes: tuple[int, int], max_restarts: int, spares: int, calm: bool) -> None:
        self.world = World(Policy(*nodes, max_restarts))
        for number in range(max(1, nodes[1] + spares)):
            self.world.start_agent(1 + number % 2)
        if calm:
            self.world.run_quietly()

    def one(self, index: int, agents: list[Agent]) -> Agent | None:
        return agents[index % len(agents)] if agents else None

    # --- the wires ----------------------------------------------------------------------------------------------

    @rule(index=pick)
    def elect(self, index: int) -> None:
        if self.world.leaderless() and (agent := self.one(index, self.world.present)):
            self.world.elect(agent)

    @rule(index=pick)
    def attach(self, index: int) -> None:
        away = [a for a in self.world.agents if a.acts and a.term is not self.world.term]
        if agent := self.one(index, away):
            agent.attach()

    @rule()
    def see_nodes(self) -> None:
        self.world.see_nodes()

    @rule(index=pick, skip=st.booleans(), again=st.booleans())
    def send_up(self, index: int, skip: bool, again: bool) -> None:
        if agent := self.one(index, [a for a in self.world.agents if a.acts and a.wire_up]):
            self.world.send_up(agent, skip=skip, again=again)

    @rule(index=pick)
    def send_down(self, index: int) -> None:
        if not self.world.leaderless() and (agent := self.one(index, self.world.present)):
            self.world.send_down(agent)

    @rule(index=pick)
    def deliver(self, index: int) -> None:
        if agent := self.one(index, [a for a in self.world.agents if a.acts and a.wire_down]):
            self.world.deliver(agent)

    @rule(index=pick)
    def act(self, index: int) -> None:
        if agent := self.one(index, [a for a in self.world.agents if a.acts]):
            agent.act()

    @rule(known=st.booleans())
    def commit(self, known: bool) -> None:
        """The plan is written; where ``known`` is false, its leader goes before it hears of that."""
        term = self.world.term
        if term is None or self.world.leaderless() or not term.job.uncommitted:
            return
        term.commit()
        assert term.job.plan is not None
        if known:
            term.step(PlanCommitted(term.job.plan.generation))
        else:
            self.world.term = None

    @rule()
    def persist(self) -> None:
        term = self.world.term
        if term is not None and not self.world.leaderless() and not term.job.uncommitted:
            term.persist()
            term.step(OperationsWritten(term.told))

    @rule(rounds=st.integers(1, 3))
    def quiet_rounds(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.quiet_round()

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 31.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # --- faults -------------------------------------------------------------------------------------------------

    @rule(slots=st.integers(1, 2), broken=st.sampled_from([False, False, False, True]))
    def node_comes(self, slots: int, broken: bool) -> None:
        if len(self.world.agents) < AGENTS_AT_MOST:
            self.world.start_agent(slots, broken=broken)

    @rule(index=pick, at_once=st.booleans())
    def node_dies(self, index: int, at_once: bool) -> None:
        if agent := self.one(index, self.world.present):
            agent.alive = False
            agent.procs = set()
            if at_once:
                agent.expire()

    @rule(index=pick)
    def node_freezes(self, index: int) -> None:
        if agent := self.one(index, self.world.present):
            agent.frozen = True

    @rule(index=pick)
    def lease_expires(self, index: int) -> None:
        if agent := self.one(index, [a for a in self.world.agents if not a.acts and a.has_key]):
            agent.expire()

    @rule(index=pick)
    def node_wakes(self, index: int) -> None:
        if agent := self.one(index, [a for a in self.world.agents if a.alive and a.frozen]):
            agent.frozen = False

    @rule(index=pick)
    def lease_is_lost(self, index: int) -> None:
        """Etcd was away too long for one node, which goes on under another id."""
        if agent := self.one(index, [a for a in self.world.agents if a.acts and a.ended is None]):
            agent.expire()
            agent.join()

    @rule(index=pick)
    def leader_changes(self, index: int) -> None:
        """The former leader may have been in the middle of anything."""
        if agent := self.one(index, self.world.present):
            self.world.elect(agent)

    @rule(index=pick, operator=st.sampled_from([False, False, False, True]))
    def node_is_signalled(self, index: int, operator: bool) -> None:
        if agent := self.one(index, self.world.present):
            code = 130 if operator else 143
            agent.update(
                leaving=True,
                leaving_reason="stopped by a signal",
                leaving_exit_code=code,
                stop_job=operator,
            )

    @rule(index=pick)
    def node_leaves_alone(self, index: int) -> None:
        """No leader is heard: a node that was signalled goes without its word."""
        unheard = [a for a in self.world.present if a.status.leaving and a.term is not self.world.term]
        if agent := self.one(index, unheard):
            agent.alive = False
            agent.expire()

    @rule(index=pick, code=st.sampled_from([1, 7, -9, -11]))
    def rank_fails(self, index: int, code: int) -> None:
        if agent := self.one(index, [a for a in self.world.agents if a.procs and a.acts]):
            agent.rank_ends(min(agent.procs), code)

    @rule(index=pick, everywhere=st.booleans())
    def ranks_succeed(self, index: int, everywhere: bool) -> None:
        agents = [a for a in self.world.agents if a.procs and a.acts]
        agent = self.one(index, agents)
        for each in agents if everywhere else [agent] if agent else []:
            while each.procs:
                each.rank_ends(min(each.procs), 0)

    @rule(
        kind=st.sampled_from(["abort", "restart", "drain", "undrain", "scale", "stacks", "signal"]),
        index=pick,
        low=st.integers(1, 3),
        more=st.integers(0, 2),
    )
    def operator_commands(self, kind: str, index: int, low: int, more: int) -> None:
        commands = self.world.etcd.commands
        if len(commands) >= COMMANDS_AT_MOST or not self.world.present:
            return
        agent = self.world.agents[index % len(self.world.agents)]
        arguments: dict[str, dict[str, object]] = {
            "abort": {"evidence": index % 2 == 0},
            "restart": {"from_step": index - 50},
            "drain": {"node": agent.node_id if index % 2 else f"h{agent.number}"},
            "undrain": {"node": f"h{agent.number}"},
            "scale": {"min_nodes": low, "max_nodes": low + more},
            "stacks": {"rank": more - 1},
            "signal": {"signal": 10, "rank": more - 1},
        }
        self.world.etcd.put_command(Operation(f"op{len(commands)}", kind, "ada", 1.0, arguments=arguments[kind]))

    @rule(number=st.integers(1, 4))
    def all_start_again(self, number: int) -> None:
        """The whole job was killed, its leases ended, and it is started again under its id."""
        if len(self.world.agents) + number > AGENTS_AT_MOST:
            return
        for agent in self.world.agents:
            agent.alive = False
            agent.expire()
        self.world.term = None
        for _ in range(number):
            self.world.start_agent()

    # --- no deadlock --------------------------------------------------------------------------------------------

    @rule()
    def calm(self) -> None:
        """Without further faults the job runs or has ended, and a job that runs ends when its ranks do."""
        self.world.calm_down()
        self.world.run_quietly()
        self.explain_waiting()

    @precondition(lambda self: len(self.world.agents) > 6)
    @rule()
    def calm_until_the_end(self) -> None:
        self.end()

    def explain_waiting(self) -> None:
        term = self.world.term
        if term is None or self.world.leaderless():
            return
        job = term.job
        assert not job.uncommitted
        if job.phase is Phase.WAITING:
            ready = [v for v in job.nodes.values() if v.eligible]
            assert len(ready) < job.policy.max_nodes
        else:
            assert job.phase in (Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)
        if job.phase is Phase.RUNNING:
            for member in job.members:
                status = job.nodes[member.node_id].status if member.node_id in job.nodes else None
                assert member.node_id in job.succeeded or (status and status.generation == job.generation)

    def end(self) -> None:
        world = self.world
        world.calm_down()
        phase = world.run_to_rest()
        for _ in range(20):
            if phase is not Phase.RUNNING:
                break
            self.check_running()
            self.ranks_succeed(0, True)
            for agent in world.agents:  # what failed before the calm may still have to be reported
                assert not agent.procs
            phase = world.run_to_rest()
        assert phase is None or phase.final, phase
        assert not world.present, "somebody was not told that the job is over"

    def check_running(self) -> None:
        world = self.world
        assert world.term is not None
        job = world.term.job
        members = {m.node_id for m in job.members}
        for agent in world.present:
            if agent.procs:
                assert agent.node_id in members
                assert agent.running == job.generation
            elif agent.node_id in members:
                assert agent.status.phase is RunPhase.SUCCEEDED
            else:
                barred = agent.node_id in job.nodes and job.nodes[agent.node_id].barred
                assert len(members) >= job.policy.max_nodes or job.succeeded or barred

    @invariant()
    def one_generation(self) -> None:
        if hasattr(self, "world"):
            self.world.check_one_generation()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.end()


JobMachine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestJob = pytest.mark.slow(JobMachine.TestCase)


def one_of(*choices: object) -> Callable[[Random], object]:
    return lambda random: random.choice(choices)


ANYONE = one_of(*range(100))
EITHER = one_of(False, True)
SELDOM = one_of(False, False, False, False, True)
WIRES: dict[str, tuple[Callable[[Random], object], ...]] = {
    "elect": (ANYONE,),
    "attach": (ANYONE,),
    "see_nodes": (),
    "send_up": (ANYONE, EITHER, SELDOM),
    "send_down": (ANYONE,),
    "deliver": (ANYONE,),
    "act": (ANYONE,),
    "commit": (one_of(True, True, True, True, False),),
    "persist": (),
    "quiet_rounds": (one_of(1, 2, 3),),
    "pass_time": (one_of(0.3, 1.0, 5.0, 31.0),),
}
FAULTS: dict[str, tuple[Callable[[Random], object], ...]] = {
    "node_comes": (one_of(1, 2), SELDOM),
    "node_dies": (ANYONE, EITHER),
    "node_freezes": (ANYONE,),
    "lease_expires": (ANYONE,),
    "node_wakes": (ANYONE,),
    "lease_is_lost": (ANYONE,),
    "leader_changes": (ANYONE,),
    "node_is_signalled": (ANYONE, SELDOM),
    "node_leaves_alone": (ANYONE,),
    "rank_fails": (ANYONE, one_of(1, 7, -9)),
    "ranks_succeed": (ANYONE, EITHER),
    "operator_commands": (
        one_of("abort", "restart", "drain", "undrain", "scale", "scale", "stacks", "signal"),
        ANYONE,
        one_of(1, 2, 3),
        one_of(0, 1, 2),
    ),
    "all_start_again": (one_of(1, 2, 3, 4),),
    "calm": (),
}


def walk(seed: int, fault_rate: float) -> None:
    random = Random(seed)
    machine = JobMachine.__new__(JobMachine)  # the rules alone, without Hypothesis
    nodes = random.choice([(1, 1), (2, 2), (1, 2), (2, 4), (4, 4), (1, 3)])
    machine.begin(nodes, random.randint(0, 3), random.randint(-1, 1), random.random() < 0.6)
    for _ in range(random.randint(10, 150)):
        rules = FAULTS if random.random() < fault_rate else WIRES
        name = random.choice(list(rules))
        getattr(machine, name)(*(make(random) for make in rules[name]))
        machine.world.check_one_generation()
    machine.end()


@pytest.mark.slow
@pytest.mark.parametrize("fault_rate", [0.05, 0.2, 0.4])
def test_random_walks(fault_rate: float) -> None:
    """Far more ways than Hypothesis walks in the same time: what fails here, its shrinking may make shorter."""
    for seed in range(700):
        walk(seed, fault_rate)
