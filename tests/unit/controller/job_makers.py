"""Short ways to the values that the job's state machine takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elaunch.controller.commands import Command, command_for
from elaunch.controller.job import Job
from elaunch.controller.job_events import Event, NodeJoined, NodeLost, PlanCommitted, StatusReceived, Tick
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.resuming import resume
from elaunch.controller.state import next_deadline, step
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Node
from elaunch.rendezvous.state import RankExit, State

START = 1000.0  # any time but 0


def make_node(
    number: int, slots: int = 2, *, node_rank: int = -1, role: str = "default", joined: int | None = None
) -> Node:
    return Node(
        node_id=f"n{number}",
        host=f"h{number}",
        address=f"10.0.0.{number}",
        slots=slots,
        store_port=1000 + number,
        control=f"10.0.0.{number}:1",
        role=role,
        node_rank=node_rank,
        joined=number if joined is None else joined,
    )


def make_exit(rank: int, code: int, *, local_rank: int = 0) -> RankExit:
    return RankExit(local_rank, rank, 4000 + rank, code, 5.0)


class Driver:
    """One leader's job with its clock: each method makes one thing happen."""

    def __init__(self, low: int, high: int, restarts: int = 1, **policy: Any) -> None:
        self.policy = Policy(low, high, restarts, **policy)
        self.now = START
        self.job = resume(self.policy, None, None, [], self.now)

    def happen(self, event: Event) -> Job:
        self.job = step(self.job, event, self.now)
        return self.job

    def join(self, *numbers: int, slots: int = 2) -> Job:
        for number in numbers:
            self.happen(NodeJoined(make_node(number, slots)))
        return self.job

    def happen_joined(self, node: Node) -> Job:
        """Join and attach this node."""
        self.happen(NodeJoined(node))
        return self.happen(StatusReceived(NodeStatus(node.node_id)))

    def tell(self, number: int, phase: RunPhase = RunPhase.NONE, generation: int = 0, **more: object) -> Job:
        status = NodeStatus(f"n{number}", generation, phase, store_port=2000 + 10 * generation + number)
        return self.happen(StatusReceived(replace(status, **more)))  # type: ignore[arg-type]

    def arrive(self, *numbers: int) -> Job:
        """Join and attach."""
        for number in numbers:
            self.join(number)
            self.tell(number)
        return self.job

    def lose(self, *numbers: int) -> Job:
        for number in numbers:
            self.happen(NodeLost(f"n{number}"))
        return self.job

    def commit(self) -> Job:
        return self.happen(PlanCommitted(self.job.generation))

    def up(self) -> Job:
        """The present plan is committed and every member runs."""
        self.commit()
        return self.everyone(RunPhase.RUNNING)

    def everyone(self, phase: RunPhase) -> Job:
        """All members that there are report ``phase`` of the present generation."""
        job = self.job
        for member in job.members:
            if member.node_id in job.nodes:
                self.tell(int(member.node_id[1:]), phase, job.generation)
        return self.job

    def fail(self, number: int, code: int = 1, phase: RunPhase = RunPhase.FAILED) -> Job:
        plan = self.job.plan
        assert plan is not None
        member = plan.member(f"n{number}")
        assert member is not None
        return self.tell(number, phase, plan.generation, exits=(make_exit(member.rank0, code),))

    def wait(self, seconds: float) -> Job:
        self.now += seconds
        return self.happen(Tick())

    def deadline(self) -> float | None:
        """Seconds until time alone may change something."""
        at = next_deadline(self.job, self.now)
        return None if at is None else at - self.now

    def command(self, number: int) -> Command:
        return command_for(self.job, self.job.nodes[f"n{number}"])

    def another_leads(self, state: State | None = None, plan: Plan | None = None) -> Job:
        """A new leader takes over with what the former one wrote last."""
        nodes = [view.node for view in self.job.nodes.values()]
        self.job = resume(self.policy, state or self.job.state, plan or self.job.plan, nodes, self.now)
        return self.happen(Tick())


def running(low: int, high: int, nodes: int | None = None, restarts: int = 1, **policy: Any) -> Driver:
    """A job with ``nodes`` (all that it may have) of which generation 1 runs."""
    driver = Driver(low, high, restarts, **policy)
    driver.arrive(*range(nodes or high))
    if nodes is not None and nodes < high:
        driver.wait(driver.policy.last_call_timeout)
    driver.up()
    return driver
