"""What each node is told, for every state that a job can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_makers import Driver, make_node, running

from elaunch.controller.commands import Abort, End, Start, Wait, start_of
from elaunch.controller.job import NodeView
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.rendezvous.records import Phase

AT_REST = [RunPhase.NONE, RunPhase.STOPPED, RunPhase.SUCCEEDED]
NOT_AT_REST = [phase for phase in RunPhase if phase not in AT_REST]


def in_phase(phase: Phase, **more: object) -> Driver:
    """Two members and one node more, in ``phase`` of generation 1."""
    driver = running(2, 2)
    driver.arrive(2)
    driver.job = replace(driver.job, phase=phase, **more)  # type: ignore[arg-type]
    return driver


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_members_start(phase: Phase) -> None:
    driver = in_phase(phase)
    assert driver.command(1) == Start(
        generation=1,
        restart_count=0,
        group_rank=1,
        group_world_size=2,
        rank0=2,
        world_size=4,
        role_rank0=2,
        role_world_size=4,
        store_address="10.0.0.0",
        store_port=2000,
        host_store=False,
        reason="the job starts",
    )
    assert driver.job.plan is not None
    assert driver.command(0) == start_of(driver.job.plan, "n0")
    assert start_of(driver.job.plan, "n0").host_store


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.ABORTING])
def test_a_plan_that_is_not_committed_commands_nothing(phase: Phase) -> None:
    driver = in_phase(phase, uncommitted=True)
    driver.tell(0, RunPhase.STOPPED, 0)
    assert isinstance(driver.command(0), Wait)


def test_members_abort() -> None:
    driver = in_phase(Phase.ABORTING)
    assert driver.command(0) == Abort(1, "start", "the job starts")
    assert driver.command(2) == Wait("the next generation is being formed")


@pytest.mark.parametrize("phase", [p for p in Phase if p.final])
def test_everyone_ends(phase: Phase) -> None:
    driver = in_phase(phase, exit_code=9)
    for number in (0, 1, 2):
        assert driver.command(number) == End(phase.value, 9, "start", "the job starts")


@pytest.mark.parametrize("phase", [p for p in Phase if not p.final])
@pytest.mark.parametrize("run", NOT_AT_REST)
def test_a_node_without_a_part_stops_what_it_runs(phase: Phase, run: RunPhase) -> None:
    driver = in_phase(phase)
    status = NodeStatus("n2", 1, run, leaving=True)
    driver.job = driver.job.with_node(NodeView(make_node(2), status))
    assert driver.command(2) == Abort(1, "not_a_member", "generation 1 is without this node")


@pytest.mark.parametrize("phase", [p for p in Phase if not p.final])
def test_a_node_without_a_part_may_leave(phase: Phase) -> None:
    driver = in_phase(phase)
    status = NodeStatus("n2", leaving=True, leaving_reason="stopped by SIGTERM", leaving_exit_code=143)
    driver.job = driver.job.with_node(NodeView(make_node(2), status))
    assert driver.command(2) == End("left", 143, "node_left", "stopped by SIGTERM")


@pytest.mark.parametrize("run", AT_REST)
def test_a_waiting_node_is_told_for_what(run: RunPhase) -> None:
    driver = Driver(3, 3)
    driver.arrive(0)
    driver.tell(1)
    driver.tell(0, run)
    assert driver.command(0) == Wait(
        "1 of at least 3 nodes are here; waiting up to 600 s for the others (join_timeout)"
    )


def test_a_node_that_is_not_attached_yet_waits() -> None:
    driver = running(1, 2, nodes=1)
    driver.join(1)
    assert isinstance(driver.command(1), Wait)


def test_a_node_that_still_runs_something_is_stopped_before_it_gets_a_part() -> None:
    driver = Driver(1, 1)
    driver.join(0)
    assert driver.tell(0, RunPhase.RUNNING, 0).phase is Phase.WAITING
    assert isinstance(driver.command(0), Abort)
    assert driver.tell(0, RunPhase.STOPPED, 0).phase is Phase.STARTING
