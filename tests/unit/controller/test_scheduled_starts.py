"""A scheduler starts a job again: the generations of each start are numbered above those of all earlier ones."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.agreement import policy_of, policy_values
from elaunch.controller.policy import Policy
from elaunch.controller.resuming import resume
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Node, Phase, Reason, Spec
from elaunch.rendezvous.seating import order
from elaunch.rendezvous.state import State
from tests.unit.controller.job_makers import START, Driver, make_node

SECOND = Policy(2, 2, 3, floor=100_000, incarnation="slurm:lab:12.0")


def test_nothing_is_left_of_the_first_start() -> None:
    driver = Driver(2, 2, floor=100_000)
    driver.arrive(0, 1)
    assert driver.job.generation == 100_001
    assert driver.job.plan is not None
    assert driver.job.plan.generation == 100_001


def test_what_is_left_of_an_earlier_start_is_below() -> None:
    for phase in (Phase.RUNNING, Phase.STOPPED):
        state = State(phase, 7, 1, Reason("start", "the job starts"))
        assert resume(SECOND, state, None, [make_node(5)], START).generation == 100_000


def test_what_is_left_is_above_where_the_scheduler_counts_anew() -> None:
    state = State(Phase.STOPPED, 100_007, 1, Reason("start", "the job starts"))
    assert resume(replace(SECOND, floor=0), state, None, [], START).generation == 100_007


def test_a_new_leader_of_the_same_start_changes_no_number() -> None:
    driver = Driver(2, 2, floor=100_000)
    driver.arrive(0, 1)
    driver.commit()
    plan: Plan | None = driver.job.plan
    job = resume(driver.policy, driver.job.state, plan, [make_node(0), make_node(1)], START)
    assert (job.generation, job.phase) == (100_001, Phase.STARTING)


def test_a_dedicated_controller_reads_it_in_the_spec() -> None:
    spec = Spec(2, 2, 3, {}, "", policy_values(SECOND))
    assert policy_of(spec) == SECOND


def placed(number: int, place: int) -> Node:
    return replace(make_node(number), place=place)


def test_ranks_follow_the_schedulers_numbers_and_the_last_is_the_spare() -> None:
    nodes = [placed(0, 3), placed(1, 1), placed(2, 0), placed(3, 2)]
    assert [node.place for node in order(nodes, (), 3)] == [0, 1, 2]


def test_a_spare_takes_the_lost_ones_place_all_the_same() -> None:
    driver = Driver(2, 3)
    for number in range(4):
        driver.happen_joined(placed(number, number))
    assert driver.job.plan is not None
    first = driver.job.plan.members
    left = [placed(number, number) for number in (0, 2, 3)]
    assert [node.place for node in order(left, first, 3)] == [0, 3, 2]
