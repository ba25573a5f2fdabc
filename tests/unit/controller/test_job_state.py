"""Each transition of a job, with the sentence that explains it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_makers import Driver, make_exit, make_node, running

from elaunch.controller.commands import Abort, End, Start, Wait, end_of
from elaunch.controller.faults import describe_exit
from elaunch.controller.forming import waiting_for
from elaunch.controller.job import Job
from elaunch.controller.job_events import Diagnosed, NodeJoined
from elaunch.controller.node_status import RunPhase
from elaunch.controller.resuming import resume
from elaunch.rendezvous.records import Phase, Reason, decode, encode
from elaunch.rendezvous.state import Failure, RankExit, State


def members(driver: Driver) -> list[str]:
    return [member.node_id for member in driver.job.members]


# --- forming --------------------------------------------------------------------------------------------------------


def test_starts_as_soon_as_all_nodes_are_here() -> None:
    driver = Driver(2, 2)
    assert driver.arrive(0).phase is Phase.WAITING
    job = driver.arrive(1)
    assert job.phase is Phase.STARTING
    assert (job.generation, job.restart_count, job.uncommitted) == (1, 0, True)
    assert job.reason.text == "the job starts"


def test_a_node_counts_from_its_first_status_on() -> None:
    driver = Driver(2, 2)
    driver.join(0, 1)
    assert driver.tell(0).phase is Phase.WAITING
    assert driver.tell(1).phase is Phase.STARTING


def test_last_call_waits_for_more_nodes_than_the_minimum() -> None:
    driver = Driver(1, 3)
    driver.arrive(0)
    assert driver.deadline() == 30.0
    assert waiting_for(driver.job) == "1 of 3 nodes are here; last call for 30 s"
    driver.wait(20.0)
    driver.arrive(1)
    assert driver.deadline() == 10.0
    driver.wait(9.9)
    assert driver.job.phase is Phase.WAITING
    driver.wait(0.1)
    assert members(driver) == ["n0", "n1"]


def test_last_call_begins_anew_when_too_few_are_left() -> None:
    driver = Driver(2, 3)
    driver.arrive(0, 1)
    driver.wait(20.0)
    assert driver.lose(1).last_call is None
    driver.arrive(2)
    assert driver.deadline() == 30.0


def test_fixed_world_waits_until_the_join_timeout_and_says_so() -> None:
    driver = Driver(4, 4, join_timeout=90.0)
    driver.arrive(0, 1)
    assert waiting_for(driver.job) == (
        "2 of at least 4 nodes are here; waiting up to 90 s for the others (join_timeout)"
    )
    assert driver.deadline() == 90.0
    assert driver.wait(89.9).phase is Phase.WAITING
    job = driver.wait(0.1)
    assert (job.phase, job.exit_code, job.reason.code) == (Phase.FAILED, 75, "join_timeout")
    assert job.reason.text == "2 of at least 4 nodes came within 90 s (join_timeout)"


def test_a_fifth_of_four_waits_and_is_harmless() -> None:
    driver = running(4, 4)
    driver.arrive(4)
    assert driver.wait(1000.0).phase is Phase.RUNNING
    assert driver.command(4) == Wait("the job has all the nodes that it may have; this one is a spare")
    assert driver.lose(4).phase is Phase.RUNNING
    driver.everyone(RunPhase.SUCCEEDED)
    assert driver.job.phase is Phase.SUCCEEDED


# --- running --------------------------------------------------------------------------------------------------------


def test_runs_when_every_member_runs() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    assert driver.tell(0, RunPhase.RUNNING, 1).phase is Phase.STARTING
    assert driver.tell(1, RunPhase.RUNNING, 1).phase is Phase.RUNNING


def test_a_node_that_is_done_before_the_last_one_runs_counts_as_started() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    assert driver.tell(1, RunPhase.RUNNING, 1).phase is Phase.RUNNING


def test_succeeds_when_every_node_has() -> None:
    driver = running(2, 2)
    assert driver.tell(0, RunPhase.SUCCEEDED, 1, exits=(make_exit(0, 0),)).phase is Phase.RUNNING
    job = driver.tell(1, RunPhase.SUCCEEDED, 1, exits=(make_exit(2, 0),))
    assert (job.phase, job.exit_code, job.reason.text) == (Phase.SUCCEEDED, 0, "every rank ended with 0")
    assert driver.command(0) == End("succeeded", 0, "succeeded", "every rank ended with 0")


def test_a_node_that_is_done_may_die() -> None:
    driver = running(2, 2)
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    assert driver.lose(0).phase is Phase.RUNNING
    assert driver.tell(1, RunPhase.SUCCEEDED, 1).phase is Phase.SUCCEEDED


def test_a_success_during_an_abort_is_a_success() -> None:
    driver = running(1, 2, nodes=1)
    driver.arrive(1)
    assert driver.wait(0.5).phase is Phase.ABORTING
    job = driver.tell(0, RunPhase.SUCCEEDED, 1)
    assert (job.phase, job.reason.code) == (Phase.SUCCEEDED, "succeeded")


def test_old_statuses_have_no_effect() -> None:
    driver = running(2, 2)
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    assert driver.job.generation == 2
    late = driver.tell(0, RunPhase.FAILED, 1, exits=(make_exit(0, 1),))
    assert (late.phase, late.restart_count, late.failures) == (Phase.RUNNING, 1, ())


# --- a rank fails ---------------------------------------------------------------------------------------------------


def test_a_dead_rank_restarts_the_job_and_costs() -> None:
    driver = running(2, 2)
    job = driver.fail(1, -9)
    assert (job.phase, job.charged) == (Phase.ABORTING, True)
    text = "rank 2 (local rank 0, pid 4002 on h1) was killed by SIGKILL"
    assert (job.reason.code, job.reason.text) == ("rank_failed", text)
    assert driver.command(0) == Abort(1, "rank_failed", text)
    assert driver.tell(1, RunPhase.STOPPED, 1).phase is Phase.ABORTING
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.generation, job.restart_count) == (Phase.STARTING, 2, 1)
    assert job.plan is not None
    assert job.plan.reason.text == text
    assert (job.failures, job.charged) == ((), False)


@pytest.mark.parametrize(
    ("code", "exit_code", "how"),
    [
        (3, 3, "exited with code 3"),
        (-11, 139, "was killed by SIGSEGV"),
        (-64, 192, "was killed by SIGRTMAX"),
        (-99, 227, "was killed by signal 99"),
    ],
)
def test_the_budget_is_spent(code: int, exit_code: int, how: str) -> None:
    driver = running(2, 2, restarts=0)
    driver.fail(0, code)
    driver.fail(1, 77)
    assert driver.job.phase is Phase.ABORTING
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, exit_code)
    assert job.reason.text == f"rank 0 (local rank 0, pid 4000 on h0) {how}"
    assert [f.host for f in job.failures] == ["h0", "h1"]
    assert describe_exit(job.failures[0]) == job.reason.text


def test_a_spent_budget_is_told() -> None:
    driver = running(1, 1, restarts=2)
    for generation in (1, 2):
        driver.fail(0)
        driver.everyone(RunPhase.STOPPED)
        driver.up()
        assert (driver.job.generation, driver.job.restart_count) == (generation + 1, generation)
    driver.fail(0, 5)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code, job.restart_count) == (Phase.FAILED, 5, 2)
    assert job.reason.text.endswith("exited with code 5; no restart left of 2")
    end = driver.command(0)
    assert isinstance(end, End)
    assert (end.outcome, end.exit_code, end.failures) == ("failed", 5, job.failures)


def test_failures_after_the_first_are_collected_and_cost_nothing_more() -> None:
    driver = running(2, 2, restarts=3)
    driver.fail(0)
    driver.fail(0)
    driver.fail(1, 9, RunPhase.STOPPED)
    assert [f.exit.rank for f in driver.job.failures] == [0, 2]
    assert driver.tell(0, RunPhase.STOPPED, 1).restart_count == 1


def test_a_failure_while_others_still_start() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    assert driver.fail(0).phase is Phase.ABORTING
    driver.tell(0, RunPhase.STOPPED, 1)
    assert driver.tell(1, RunPhase.STARTING, 1).phase is Phase.ABORTING
    assert driver.tell(1, RunPhase.STOPPED, 1).generation == 2


# --- nodes go -------------------------------------------------------------------------------------------------------


def test_all_hosts_that_are_missing_are_named() -> None:
    driver = running(4, 4)
    for number in (1, 2, 3):
        driver.lose(number)
    driver.tell(0, RunPhase.STOPPED, 1)
    assert waiting_for(driver.job) == (
        "1 of at least 4 nodes are here (node h1 (n1) was lost; missing: h2, h3); waiting up to 600 s for the others"
        " (join_timeout)"
    )


def test_a_lost_node_of_a_fixed_world_is_waited_for() -> None:
    driver = running(2, 2)
    job = driver.lose(1)
    assert (job.phase, job.reason.code) == (Phase.ABORTING, "node_lost")
    assert job.reason.text == "node h1 (n1) was lost"
    driver.tell(0, RunPhase.STOPPED, 1)
    assert driver.job.phase is Phase.WAITING
    assert waiting_for(driver.job) == (
        "1 of at least 2 nodes are here (node h1 (n1) was lost); waiting up to 600 s for the others (join_timeout)"
    )
    driver.arrive(2)
    job = driver.job
    assert (job.phase, job.generation, job.restart_count) == (Phase.STARTING, 2, 0)
    assert members(driver) == ["n0", "n2"]


def test_a_lost_node_that_nobody_replaces_ends_a_fixed_world() -> None:
    driver = running(2, 2)
    driver.lose(1)
    driver.tell(0, RunPhase.STOPPED, 1)
    job = driver.wait(600.0)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 75)
    assert job.reason.text == ("1 of at least 2 nodes came within 600 s (join_timeout); before: node h1 (n1) was lost")


def test_an_elastic_job_goes_on_without_a_lost_node() -> None:
    driver = running(1, 3)
    driver.lose(0)
    driver.tell(1, RunPhase.STOPPED, 1)
    assert driver.job.phase is Phase.ABORTING
    job = driver.tell(2, RunPhase.STOPPED, 1)
    assert (job.phase, job.restart_count) == (Phase.STARTING, 0)
    assert members(driver) == ["n1", "n2"]


def test_a_spare_takes_over_at_once() -> None:
    driver = running(2, 2)
    driver.arrive(2)
    driver.lose(0)
    job = driver.tell(1, RunPhase.STOPPED, 1)
    assert (job.phase, members(driver)) == (Phase.STARTING, ["n2", "n1"])
    driver.commit()
    start = driver.command(1)
    assert isinstance(start, Start)
    assert (start.generation, start.rank0, start.world_size) == (2, 2, 4)


def test_a_member_that_is_lost_before_the_plan_is_committed() -> None:
    driver = Driver(1, 2)
    driver.arrive(0, 1)
    driver.lose(1)
    assert (driver.job.phase, driver.job.uncommitted) == (Phase.ABORTING, True)
    driver.commit()
    assert driver.command(0) == Abort(1, "node_lost", "node h1 (n1) was lost")
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.generation, members(driver)) == (Phase.STARTING, 2, ["n0"])


def test_a_node_is_waited_for_until_it_stopped_or_lost_its_lease() -> None:
    driver = running(1, 2)
    driver.fail(0)
    driver.tell(0, RunPhase.STOPPED, 1)
    driver.wait(10_000.0)
    assert driver.job.phase is Phase.ABORTING
    assert driver.deadline() is None
    assert driver.lose(1).phase is Phase.STARTING


@pytest.mark.parametrize("restarts", [0, 1])
def test_ranks_that_fail_because_a_node_does_cost_nothing(restarts: int) -> None:
    driver = running(1, 2, restarts=restarts)
    driver.fail(0)
    job = driver.lose(1)
    assert (job.phase, job.charged, job.verdict, job.reason.code) == (Phase.ABORTING, False, None, "node_lost")
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.restart_count, members(driver)) == (Phase.STARTING, 0, ["n0"])


def test_a_node_that_is_lost_after_it_stopped_is_no_excuse() -> None:
    driver = running(1, 2)
    driver.fail(0)
    driver.tell(1, RunPhase.STOPPED, 1)
    driver.lose(1)
    assert driver.tell(0, RunPhase.STOPPED, 1).restart_count == 1


def test_a_node_that_leaves_is_done_without() -> None:
    driver = running(1, 2)
    driver.tell(1, RunPhase.RUNNING, 1, leaving=True, leaving_reason="stopped by SIGTERM", leaving_exit_code=143)
    job = driver.job
    assert (job.phase, job.reason.code) == (Phase.ABORTING, "node_left")
    assert job.reason.text == "node h1 was asked to leave"
    leaving = {"leaving": True, "leaving_reason": "stopped by SIGTERM", "leaving_exit_code": 143}
    driver.tell(1, RunPhase.STOPPED, 1, **leaving)
    driver.tell(0, RunPhase.STOPPED, 1)
    assert members(driver) == ["n0"]
    assert driver.job.restart_count == 0
    assert driver.command(1) == End("left", 143, "node_left", "stopped by SIGTERM")


def test_a_job_stops_where_a_leave_makes_it_too_small() -> None:
    driver = running(2, 2)
    leaving = {"leaving": True, "leaving_reason": "stopped by SIGTERM", "leaving_exit_code": 143}
    driver.tell(1, RunPhase.RUNNING, 1, **leaving)
    assert (driver.job.phase, driver.job.verdict) == (Phase.ABORTING, Phase.STOPPED)
    driver.tell(0, RunPhase.STOPPED, 1)
    job = driver.tell(1, RunPhase.STOPPED, 1, **leaving)
    assert (job.phase, job.exit_code) == (Phase.STOPPED, 143)
    assert job.reason.text == "stopped by SIGTERM; 1 nodes would be left of at least 2"


def test_a_leave_of_the_only_node_names_no_minimum() -> None:
    driver = running(1, 1)
    driver.job = replace(driver.job, policy=replace(driver.job.policy, max_nodes=2))
    job = driver.tell(0, RunPhase.RUNNING, 1, leaving=True, leaving_reason="stopped by SIGTERM", leaving_exit_code=143)
    assert (job.verdict, job.reason.text) == (Phase.STOPPED, "stopped by SIGTERM")


def test_nodes_that_are_yet_to_attach_count_when_one_leaves() -> None:
    driver = running(1, 3)
    driver.another_leads()
    driver.tell(0, RunPhase.RUNNING, 1, leaving=True, leaving_exit_code=143)
    assert (driver.job.phase, driver.job.verdict) == (Phase.ABORTING, None)
    assert driver.job.reason.code == "node_left"


def test_all_nodes_leave_at_once() -> None:
    driver = running(1, 2)
    leaving = {"leaving": True, "leaving_reason": "stopped by SIGTERM", "leaving_exit_code": 143}
    driver.tell(0, RunPhase.RUNNING, 1, **leaving)
    driver.tell(1, RunPhase.STOPPED, 1, **leaving)
    job = driver.tell(0, RunPhase.STOPPED, 1, **leaving)
    assert (job.phase, job.exit_code, job.reason.text) == (Phase.STOPPED, 143, "stopped by SIGTERM")


def test_the_last_node_leaves_while_its_failed_rank_is_cleared_away() -> None:
    driver = running(1, 1)
    driver.fail(0)
    job = driver.tell(0, RunPhase.STOPPED, 1, leaving=True, leaving_reason="stopped by SIGTERM", leaving_exit_code=143)
    assert (job.phase, job.exit_code) == (Phase.STOPPED, 143)
    assert (job.reason.code, job.reason.text) == ("stopped", "stopped by SIGTERM")


def test_the_only_node_leaves_while_it_waits() -> None:
    driver = Driver(2, 2)
    driver.arrive(0)
    job = driver.tell(0, leaving=True, leaving_exit_code=143)
    assert (job.phase, job.exit_code) == (Phase.STOPPED, 143)
    assert job.reason.text == "node h0 was asked to leave"


def test_one_of_two_leaves_while_they_wait() -> None:
    driver = Driver(3, 3)
    driver.arrive(0, 1)
    driver.tell(1, leaving=True, leaving_reason="stopped by SIGTERM", leaving_exit_code=143)
    assert driver.job.phase is Phase.WAITING
    assert driver.command(1) == End("left", 143, "node_left", "stopped by SIGTERM")
    assert waiting_for(driver.job).startswith("1 of at least 3 nodes are here;")


# --- the operator ---------------------------------------------------------------------------------------------------

STOP = {"leaving": True, "leaving_reason": "stopped by SIGINT", "leaving_exit_code": 130, "stop_job": True}


def test_an_operator_stops_the_whole_job() -> None:
    driver = running(1, 3)
    driver.tell(2, RunPhase.RUNNING, 1, **STOP)
    assert (driver.job.phase, driver.job.verdict) == (Phase.ABORTING, Phase.STOPPED)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code, job.reason.code) == (Phase.STOPPED, 130, "operator_stop")
    assert driver.command(0) == End("stopped", 130, "operator_stop", "stopped by SIGINT")


def test_an_operator_stops_a_job_that_waits() -> None:
    driver = Driver(2, 2)
    driver.arrive(0)
    job = driver.tell(0, stop_job=True)
    assert (job.phase, job.exit_code, job.reason.text) == (
        Phase.STOPPED,
        130,
        "stopped by an operator on h0",
    )


def test_an_operator_stops_a_job_in_the_middle_of_a_restart() -> None:
    driver = running(2, 2)
    driver.fail(0)
    driver.tell(1, RunPhase.STOPPED, 1, **STOP)
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.exit_code) == (Phase.STOPPED, 130)


def test_an_operator_stops_a_job_whose_plan_is_being_written() -> None:
    driver = Driver(1, 1)
    driver.arrive(0)
    assert driver.tell(0, **STOP).phase is Phase.ABORTING
    driver.commit()
    job = driver.tell(0, RunPhase.STOPPED, 1, **STOP)
    assert (job.phase, job.exit_code) == (Phase.STOPPED, 130)


def test_an_operator_does_not_hide_that_the_job_had_failed() -> None:
    driver = running(2, 2, restarts=0)
    driver.fail(0, 3)
    driver.tell(1, RunPhase.STOPPED, 1, **STOP)
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.exit_code, job.reason.code) == (Phase.FAILED, 3, "rank_failed")


# --- nodes come -----------------------------------------------------------------------------------------------------


def test_a_late_node_is_taken_in_uncharged() -> None:
    driver = running(1, 3, nodes=1)
    driver.arrive(1)
    assert driver.command(1) == Wait("joining")
    assert driver.deadline() == 0.5
    job = driver.wait(0.5)
    assert (job.phase, job.charged) == (Phase.ABORTING, False)
    assert (job.reason.code, job.reason.text) == ("node_joined", "node h1 joined")
    driver.everyone(RunPhase.STOPPED)
    assert (driver.job.restart_count, members(driver)) == (0, ["n0", "n1"])


def test_nodes_that_come_together_are_taken_in_together() -> None:
    driver = running(1, 3, nodes=1)
    driver.arrive(1)
    driver.wait(0.2)
    driver.arrive(2)
    driver.wait(0.3)
    assert driver.job.reason.text == "node h1, h2 joined"


def test_a_node_that_comes_while_others_start_waits_for_them() -> None:
    driver = Driver(1, 2)
    driver.arrive(0)
    driver.wait(30.0)
    driver.commit()
    driver.arrive(1)
    assert driver.wait(100.0).phase is Phase.STARTING
    assert driver.deadline() is None
    assert driver.tell(0, RunPhase.RUNNING, 1).phase is Phase.ABORTING


def test_a_job_that_is_about_to_end_takes_nobody_in() -> None:
    driver = running(1, 3, nodes=2)
    driver.arrive(2)
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    assert driver.deadline() is None
    assert driver.wait(100.0).phase is Phase.RUNNING


def test_a_bouncing_node_is_taken_in_ever_more_slowly() -> None:
    driver = running(1, 2, nodes=1)
    waits = []
    for number in range(1, 7):
        driver.arrive(number)
        wait = driver.deadline()
        assert wait is not None
        waits.append(wait)
        driver.wait(wait)
        driver.everyone(RunPhase.STOPPED)
        driver.up()
        driver.lose(number)
        driver.everyone(RunPhase.STOPPED)
        driver.up()
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    driver.wait(60.0)
    driver.arrive(9)
    assert driver.deadline() == 0.5


def test_a_node_that_goes_again_at_once_disturbs_nobody() -> None:
    driver = running(1, 2, nodes=1)
    driver.arrive(1)
    driver.lose(1)
    assert driver.deadline() is None
    assert driver.wait(1.0).phase is Phase.RUNNING


# --- a node cannot start its ranks ------------------------------------------------------------------------------------


def test_a_node_that_cannot_start_is_left_out() -> None:
    driver = Driver(1, 2)
    driver.arrive(0, 1)
    driver.commit()
    driver.tell(0, RunPhase.RUNNING, 1)
    job = driver.tell(1, RunPhase.STOPPED, 1, start_error="no such file: train.py")
    assert (job.phase, job.reason.code) == (Phase.ABORTING, "start_failed")
    assert job.reason.text == "h1: no such file: train.py"
    driver.tell(0, RunPhase.STOPPED, 1)
    assert (members(driver), driver.job.restart_count) == (["n0"], 0)
    assert driver.command(1) == End("failed", 71, "start_failed", "no such file: train.py")


def test_a_job_fails_where_no_node_can_start() -> None:
    driver = Driver(1, 1)
    driver.arrive(0)
    driver.commit()
    job = driver.tell(0, RunPhase.STOPPED, 1, start_error="no such file: train.py")
    assert (job.phase, job.exit_code) == (Phase.FAILED, 71)
    assert (job.reason.code, job.reason.text) == ("start_failed", "h0: no such file: train.py")


def test_a_start_error_that_is_seen_last_is_the_reason() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    driver.lose(1)
    job = driver.tell(0, RunPhase.STOPPED, 1, start_error="no such file: train.py")
    assert (job.phase, job.reason.text) == (Phase.FAILED, "h0: no such file: train.py")


NO_ROUTE = {"start_error": "no port to reach other nodes over", "start_code": "no_route", "start_exit_code": 95}


def test_a_node_without_a_way_to_the_others_is_left_out() -> None:
    driver = Driver(1, 2)
    driver.arrive(0, 1)
    driver.commit()
    job = driver.tell(1, RunPhase.STOPPED, 1, **NO_ROUTE)
    assert (job.phase, job.reason) == (Phase.ABORTING, Reason("no_route", "h1: no port to reach other nodes over"))
    driver.tell(0, RunPhase.STOPPED, 1)
    assert (members(driver), driver.job.restart_count) == (["n0"], 0)
    assert driver.command(1) == End("failed", 95, "no_route", "no port to reach other nodes over")


def test_a_job_that_needs_a_node_without_a_way_ends_on_all_nodes() -> None:
    driver = Driver(2, 2, 3)
    driver.arrive(0, 1)
    driver.commit()
    driver.tell(1, RunPhase.STOPPED, 1, **NO_ROUTE)
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.exit_code, job.restart_count) == (Phase.FAILED, 95, 0)
    for node in (0, 1):
        assert driver.command(node) == End("failed", 95, "no_route", "h1: no port to reach other nodes over")


def test_a_spare_takes_the_place_of_a_node_without_a_way() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    driver.arrive(2)
    driver.tell(1, RunPhase.STOPPED, 1, **NO_ROUTE)
    driver.tell(0, RunPhase.STOPPED, 1)
    assert members(driver) == ["n0", "n2"]


def test_nodes_that_find_one_after_the_other_that_they_have_no_way_end_the_job() -> None:
    driver = Driver(2, 3)
    driver.arrive(0, 1, 2)
    driver.commit()
    assert driver.tell(2, RunPhase.STOPPED, 1, **NO_ROUTE).verdict is None
    driver.tell(1, RunPhase.STOPPED, 1, **NO_ROUTE)
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.exit_code, job.reason.code) == (Phase.FAILED, 95, "no_route")


# --- another leader -------------------------------------------------------------------------------------------------


def test_a_new_leader_disturbs_no_running_job() -> None:
    driver = running(2, 2)
    job = driver.another_leads()
    assert (job.phase, job.generation, job.uncommitted) == (Phase.RUNNING, 1, False)
    job = driver.everyone(RunPhase.RUNNING)
    assert job.phase is Phase.RUNNING
    assert isinstance(driver.command(0), Start)


def test_a_new_leader_goes_on_starting() -> None:
    driver = Driver(2, 2)
    driver.arrive(0, 1)
    driver.commit()
    assert driver.another_leads().phase is Phase.STARTING
    driver.tell(0)
    assert isinstance(driver.command(0), Start)
    assert driver.everyone(RunPhase.RUNNING).phase is Phase.RUNNING


def test_a_new_leader_finds_a_plan_of_which_its_author_did_not_hear() -> None:
    driver = Driver(1, 1)
    driver.arrive(0)
    job = driver.another_leads()
    assert (job.phase, job.uncommitted) == (Phase.STARTING, False)


def test_a_new_leader_goes_on_aborting() -> None:
    driver = running(2, 2)
    driver.fail(0)
    job = driver.another_leads()
    assert (job.phase, job.charged, job.reason.code) == (Phase.ABORTING, True, "rank_failed")
    assert driver.everyone(RunPhase.STOPPED).restart_count == 1


def test_a_new_leader_ends_what_was_to_end() -> None:
    driver = running(2, 2, restarts=0)
    driver.fail(0, 3)
    assert driver.another_leads().verdict is Phase.FAILED
    driver.fail(0, 3, RunPhase.STOPPED)
    job = driver.tell(1, RunPhase.STOPPED, 1)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 3)
    assert [f.exit.exit_code for f in job.failures] == [3]


def test_a_new_leader_finds_that_a_node_is_gone() -> None:
    driver = running(1, 2)
    state, plan = driver.job.state, driver.job.plan
    driver.lose(1)
    job = driver.another_leads(state, plan)
    assert (job.phase, job.reason.code, job.reason.text) == (Phase.ABORTING, "node_lost", "lost h1")


def test_a_new_leader_does_not_know_of_an_abort() -> None:
    driver = running(2, 2)
    state = driver.job.state
    driver.fail(1, 4)
    driver.another_leads(state)
    job = driver.tell(0, RunPhase.STOPPED, 1)
    assert (job.phase, job.reason.code) == (Phase.ABORTING, "stopped_early")
    assert job.reason.text == "node h0 had stopped its ranks"
    job = driver.fail(1, 4)
    assert (job.reason.code, job.charged) == ("rank_failed", True)
    assert driver.tell(1, RunPhase.STOPPED, 1).restart_count == 1


def test_a_new_leader_does_not_know_of_an_abort_that_was_to_end_the_job() -> None:
    driver = running(2, 2, restarts=0)
    state = driver.job.state
    driver.another_leads(state)
    driver.tell(0, RunPhase.STOPPED, 1)
    job = driver.fail(1, 4, RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 4)


def test_a_new_leader_waits_on() -> None:
    driver = running(2, 2)
    driver.fail(0)
    driver.tell(1, RunPhase.STOPPED, 1)
    driver.lose(1)
    driver.tell(0, RunPhase.STOPPED, 1)
    assert driver.job.phase is Phase.WAITING
    job = driver.another_leads()
    assert (job.phase, job.charged, job.generation) == (Phase.WAITING, True, 1)
    driver.tell(0, RunPhase.STOPPED, 1)
    driver.arrive(2)
    assert (driver.job.generation, driver.job.restart_count) == (2, 1)


def test_a_new_leader_gives_the_others_time_to_come_back() -> None:
    driver = running(1, 2)
    driver.fail(0)
    driver.lose(1)
    driver.arrive(2, 3)
    state, plan = driver.job.state, driver.job.plan
    assert plan is not None
    driver.job = resume(driver.policy, driver.job.state, plan, [make_node(0), make_node(2)], driver.now)
    assert state.phase is Phase.ABORTING
    driver.tell(0, RunPhase.STOPPED, 1)
    assert (driver.job.phase, driver.deadline()) == (Phase.WAITING, 3.0)
    driver.wait(3.0)
    assert members(driver) == ["n0"]


def test_a_new_leader_tells_the_end() -> None:
    driver = running(2, 2)
    driver.everyone(RunPhase.SUCCEEDED)
    job = driver.another_leads()
    assert (job.phase, job.exit_code) == (Phase.SUCCEEDED, 0)
    assert driver.command(1) == End("succeeded", 0, "succeeded", "every rank ended with 0")


def test_a_new_leader_tells_the_end_to_a_spare_that_is_left() -> None:
    driver = running(1, 1)
    driver.arrive(1)
    driver.everyone(RunPhase.SUCCEEDED)
    driver.lose(0)
    assert driver.another_leads().phase is Phase.SUCCEEDED


def test_a_new_leader_tells_the_end_of_a_job_that_never_started() -> None:
    driver = Driver(3, 3)
    driver.arrive(0, 1)
    driver.tell(1, **STOP)
    assert driver.another_leads().phase is Phase.STOPPED


def test_a_new_leader_tells_the_root_cause_that_the_old_one_heard() -> None:
    driver = running(1, 2, restarts=0)
    end = replace(make_exit(0, 3), message="ValueError: no", traceback="Traceback: no", error_file="/tmp/\udcff")
    driver.tell(0, RunPhase.FAILED, 1, exits=(end,))
    state = decode(State, encode(driver.job.state))
    driver.job = resume(driver.policy, state, driver.job.plan, [make_node(0), make_node(1)], driver.now)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 3)
    assert end_of(job).failures == (Failure("h0", end),)


def test_a_program_that_needs_its_world_refuses_another() -> None:
    driver = running(1, 2, restarts=3, fixed_world=True)
    driver.lose(1)
    driver.everyone(RunPhase.STOPPED)
    job = driver.job
    assert (job.phase, job.reason.code, job.exit_code) == (Phase.FAILED, "fixed_world", 91)
    assert job.reason.text == "the program needs its 4 ranks (--fixed-world), and 2 would be left"


def test_a_job_stops_at_its_first_failure_where_that_was_asked_for() -> None:
    driver = running(1, 1, restarts=3, on_failure="stop")
    driver.fail(0, 7)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 7)
    assert job.reason.text.endswith("exited with code 7; --on-failure=stop")


def test_ranks_that_do_not_get_on_cost_a_restart_and_leave_their_stacks() -> None:
    driver = running(1, 1, restarts=1)
    hang = Reason("hung", "rank 1 does not move")
    assert driver.happen(Diagnosed(7, hang)).phase is Phase.RUNNING  # of another generation
    driver.happen(Diagnosed(1, hang))
    assert driver.command(0) == Abort(1, "hung", "rank 1 does not move", evidence=True)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.generation, job.restart_count, job.evidence) == (Phase.STARTING, 2, 1, False)
    driver.up()
    driver.happen(Diagnosed(2, hang))
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 92)


def raised(rank: int, line: int = 31, kind: str = "ValueError") -> RankExit:
    text = f"{kind}: no"
    trace = f'Traceback (most recent call last):\n  File "train.py", line {line}, in step\n{text}\n'
    return replace(make_exit(rank, 1), message=text, traceback=trace)


def fail_everywhere(driver: Driver, line: int = 31) -> Job:
    generation = driver.job.generation
    driver.tell(0, RunPhase.FAILED, generation, exits=(raised(0, line), raised(1, line)))
    return driver.everyone(RunPhase.STOPPED)


def test_the_same_error_on_all_ranks_twice_in_a_row_is_not_worth_a_restart() -> None:
    driver = running(1, 1, restarts=9)
    assert fail_everywhere(driver).phase is Phase.STARTING
    driver.up()
    job = fail_everywhere(driver)
    assert (job.phase, job.reason.code, job.exit_code) == (Phase.FAILED, "code_error", 1)
    assert "ValueError at train.py:31, twice in a row (all 2 ranks)" in job.reason.text


def test_other_errors_are_worth_the_budget() -> None:
    driver = running(1, 1, restarts=9)
    for line in range(31, 38):
        assert fail_everywhere(driver, line).phase is Phase.STARTING
        driver.up()


def test_a_job_that_gets_nowhere_is_a_crash_loop_though_its_budget_refills() -> None:
    driver = running(1, 1, restarts=2, restart_window=10.0)
    for _ in range(5):
        driver.fail(0, 7)
        assert driver.everyone(RunPhase.STOPPED).phase is Phase.STARTING
        driver.up()
        driver.job = replace(driver.job, history=replace(driver.job.history, charged=()))
    driver.fail(0, 7)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.reason.code, job.exit_code) == (Phase.FAILED, "crash_loop", 93)


def test_restarts_count_no_more_once_the_job_got_on_and_they_are_old() -> None:
    driver = running(1, 1, restarts=1, restart_window=100.0)
    for step in range(1, 20):
        driver.job = replace(driver.job, step=step)
        driver.fail(0, 7)
        assert driver.everyone(RunPhase.STOPPED).phase is Phase.STARTING, step
        driver.up()
        driver.wait(101.0)
    driver.fail(0, 7)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    driver.fail(0, 7)
    assert driver.everyone(RunPhase.STOPPED).phase is Phase.FAILED


def test_a_new_leader_remembers_the_restarts_that_count() -> None:
    driver = running(1, 1, restarts=1)
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    driver.another_leads(decode(State, encode(driver.job.state)))
    driver.up()
    driver.fail(0, 9)
    job = driver.everyone(RunPhase.STOPPED)
    assert (job.phase, job.exit_code) == (Phase.FAILED, 9)


def fail_on(driver: Driver, number: int) -> Job:
    driver.fail(number, 7)
    return driver.everyone(RunPhase.STOPPED)


def test_a_host_that_fails_again_and_again_is_left_out_while_there_are_others() -> None:
    driver = running(1, 3, restarts=9)
    for _ in range(2):
        assert [m.node_id for m in fail_on(driver, 1).members] == ["n0", "n1", "n2"]
        driver.up()
    assert [m.node_id for m in fail_on(driver, 1).members] == ["n0", "n2"]
    driver.up()
    wait = driver.command(1)
    assert isinstance(wait, Wait)
    assert wait.reason.startswith("host h1 is in quarantine for 1 h more: 3 faults within 1 h; the last: rank 2 (")
    driver.another_leads(decode(State, encode(driver.job.state)))
    driver.wait(60.0)
    assert [m.node_id for m in driver.job.members] == ["n0", "n2"]
    driver.tell(1)
    driver.wait(3600.0)
    driver.fail(0, 7)
    assert [m.node_id for m in driver.everyone(RunPhase.STOPPED).members] == ["n0", "n2", "n1"]


def test_a_host_that_the_job_cannot_do_without_stays() -> None:
    driver = running(2, 2, restarts=9)
    for _ in range(5):
        assert len(fail_on(driver, 1).members) == 2
        driver.up()


def test_a_job_is_started_again_under_its_id() -> None:
    driver = running(1, 1, restarts=1)
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    driver.fail(0, 6)
    job = driver.everyone(RunPhase.STOPPED)
    assert job.phase is Phase.FAILED
    driver.job = resume(driver.policy, job.state, job.plan, [make_node(7)], driver.now)
    assert (driver.job.phase, driver.job.generation, driver.job.restart_count) == (Phase.WAITING, 2, 0)
    driver.tell(7)
    assert (driver.job.phase, driver.job.generation) == (Phase.STARTING, 3)


def test_a_job_whose_nodes_all_died_counts_on() -> None:
    driver = running(1, 1, restarts=2)
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    job = driver.up()
    driver.job = resume(driver.policy, job.state, job.plan, [make_node(7)], driver.now)
    driver.tell(7)
    assert (driver.job.generation, driver.job.restart_count) == (3, 1)
    assert driver.job.plan is not None
    assert driver.job.plan.reason == Reason("node_lost", "lost h0"), "it does not say that the job starts"


def test_the_end_is_kept_whatever_follows() -> None:
    driver = running(1, 2, nodes=1)
    job = driver.everyone(RunPhase.SUCCEEDED)
    driver.arrive(1)
    driver.tell(0, RunPhase.FAILED, 1, exits=(make_exit(0, 1),), stop_job=True)
    driver.lose(0, 1)
    driver.wait(1e6)
    assert (driver.job.phase, driver.job.state) == (Phase.SUCCEEDED, job.state)


def test_a_node_that_changes_its_record_keeps_its_status() -> None:
    driver = running(1, 1)
    driver.happen(NodeJoined(make_node(0, slots=4)))
    assert driver.job.nodes["n0"].status is not None
    assert driver.job.phase is Phase.RUNNING


def test_a_node_nobody_knows_is_ignored() -> None:
    driver = running(1, 1)
    before = driver.job
    assert driver.tell(5, **STOP) is before
    assert driver.lose(5) is before
