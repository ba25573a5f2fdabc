"""Every operator's command in every phase of a job: what it does, what it answers, with which exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from job_makers import Driver, make_node, running

from elaunch.controller import answering
from elaunch.controller.commands import Abort, Leave, Signal, Stacks, Start, Wait, requests_for
from elaunch.controller.forming import waiting_for
from elaunch.controller.history import Entry, merged, told
from elaunch.controller.job import Job
from elaunch.controller.job_events import NodeJoined, OperationsWritten, OperatorCommand
from elaunch.controller.node_status import Answer, RunPhase
from elaunch.controller.operations import EXIT_ABORTED, KINDS
from elaunch.controller.resuming import resume
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.records import Phase

ORDER = 100  # after every node of these tests has joined
WHO = "ada@login1"


def make(kind: str, number: int = 1, reason: str = "", **arguments: Any) -> Operation:
    return Operation(f"op{number}", kind, WHO, 5.0, reason, arguments, order=ORDER + number)


def command(driver: Driver, kind: str, number: int = 1, reason: str = "", **arguments: Any) -> Operation:
    """Give the command; how it stands then."""
    driver.happen(OperatorCommand(make(kind, number, reason, **arguments)))
    return standing(driver, number)


def standing(driver: Driver, number: int = 1) -> Operation:
    return next(o for o in driver.job.operations if o.id == f"op{number}")


# --- the table ------------------------------------------------------------------------------------------------------


def waiting() -> Driver:
    driver = Driver(2, 3, 1)
    driver.arrive(0)
    return driver


def starting() -> Driver:
    driver = Driver(2, 3, 1)
    driver.arrive(0, 1, 2)
    driver.commit()
    return driver


def runs() -> Driver:
    return running(2, 3, restarts=1)


def restarting() -> Driver:
    driver = runs()
    driver.fail(0)
    return driver


def ending() -> Driver:
    driver = running(2, 3, restarts=0)
    driver.fail(0)
    return driver


def succeeded() -> Driver:
    driver = runs()
    driver.everyone(RunPhase.SUCCEEDED)
    return driver


def failed() -> Driver:
    driver = ending()
    driver.everyone(RunPhase.STOPPED)
    return driver


def stopped() -> Driver:
    driver = runs()
    driver.tell(0, RunPhase.RUNNING, 1, stop_job=True, leaving=True, leaving_exit_code=130)
    driver.everyone(RunPhase.STOPPED)
    return driver


JOBS: dict[str, Callable[[], Driver]] = {
    "waiting": waiting,
    "starting": starting,
    "running": runs,
    "restarting": restarting,
    "ending": ending,
    "succeeded": succeeded,
    "failed": failed,
    "stopped": stopped,
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "abort": {},
    "restart": {},
    "drain": {"node": "h2"},
    "undrain": {"node": "h2"},
    "scale": {"min_nodes": 1, "max_nodes": 4},
    "stacks": {},
    "probe": {},
    "signal": {"signal": 10},
    "inject": {"fault": {"kind": "kill", "rank": 0}},
    "announce": {"fault": {"kind": "partition"}, "where": "h2", "over": False},
}
OVER = ("refused", 67, "the job has ended already ({phase}): ")
ENDING = ("refused", 68, "the job is ending already: rank 0 ")
NO_INTERFACES = ("refused", 68, "0 nodes of this job can be probed, and it takes two")
BETWEEN = ("refused", 68, "no rank runs now: the job is between two generations")
NOT_ALLOWED = ("refused", 68, "the job was not started with --allow-injection")
INJECTING = ("inject", "announce")
NOT_OUT = ("refused", 68, "h2 is not drained")
SCALED = ("done", 0, "1:4 nodes instead of 2:3")
DRAINED = ("accepted", 0, "1 node of h2 asked to leave; the host stays out until `elaunch undrain h2`")
Row = tuple[str, int, str]
TABLE: dict[tuple[str, str], tuple[Row, str]] = {
    # command, phase: how it stands, its exit code, how its answer begins; the job's phase then
    ("abort", "waiting"): (("done", 0, f"the job has ended: aborted by {WHO}"), "stopped"),
    ("abort", "starting"): (("accepted", 0, "the ranks are being stopped; then the job ends"), "aborting"),
    ("abort", "running"): (("accepted", 0, "the ranks are being stopped; then the job ends"), "aborting"),
    ("abort", "restarting"): (("accepted", 0, "the ranks are being stopped; then the job ends"), "aborting"),
    ("restart", "waiting"): (
        ("refused", 68, "there is nothing to restart: the job waits for nodes (1 of at least 2 nodes are here)"),
        "waiting",
    ),
    ("restart", "starting"): (("accepted", 0, "generation 1 is being stopped; the next one follows"), "aborting"),
    ("restart", "running"): (("accepted", 0, "generation 1 is being stopped; the next one follows"), "aborting"),
    ("restart", "restarting"): (("accepted", 0, "generation 1 was being stopped already (rank 0 "), "aborting"),
    ("drain", "waiting"): (("refused", 66, "no node or host h2 is in the job"), "waiting"),
    ("drain", "starting"): (DRAINED, "starting"),
    ("drain", "running"): (DRAINED, "running"),
    ("drain", "restarting"): (DRAINED, "aborting"),
    ("undrain", "waiting"): (NOT_OUT, "waiting"),
    ("undrain", "starting"): (NOT_OUT, "starting"),
    ("undrain", "running"): (NOT_OUT, "running"),
    ("undrain", "restarting"): (NOT_OUT, "aborting"),
    ("scale", "waiting"): (SCALED, "waiting"),
    ("scale", "starting"): (SCALED, "starting"),
    ("scale", "running"): (SCALED, "running"),
    ("scale", "restarting"): (SCALED, "aborting"),
    ("stacks", "waiting"): (("refused", 68, "no rank runs now: the job waits for nodes"), "waiting"),
    ("stacks", "starting"): (("accepted", 0, "the nodes are asked"), "starting"),
    ("stacks", "running"): (("accepted", 0, "the nodes are asked"), "running"),
    ("stacks", "restarting"): (BETWEEN, "aborting"),
    ("probe", "waiting"): (NO_INTERFACES, "waiting"),
    ("probe", "starting"): (NO_INTERFACES, "starting"),
    ("probe", "running"): (NO_INTERFACES, "running"),
    ("probe", "restarting"): (NO_INTERFACES, "aborting"),
    ("signal", "waiting"): (("refused", 68, "no rank runs now: the job waits for nodes"), "waiting"),
    ("signal", "starting"): (("accepted", 0, "SIGUSR1 is on its way"), "starting"),
    ("signal", "running"): (("accepted", 0, "SIGUSR1 is on its way"), "running"),
    ("signal", "restarting"): (BETWEEN, "aborting"),
    **{(kind, phase): (NOT_ALLOWED, phase) for kind in INJECTING for phase in ("waiting", "starting", "running")},
    **{(kind, "restarting"): (NOT_ALLOWED, "aborting") for kind in INJECTING},
    **{(kind, "ending"): (ENDING, "aborting") for kind in KINDS},
    **{(kind, phase): (OVER, phase) for kind in KINDS for phase in ("succeeded", "failed", "stopped")},
}


def test_the_table_has_every_command_in_every_phase() -> None:
    assert TABLE.keys() == {(kind, phase) for kind in KINDS for phase in JOBS}


@pytest.mark.parametrize(("kind", "phase"), sorted(TABLE))
def test_each_command_in_each_phase(kind: str, phase: str) -> None:
    driver = JOBS[phase]()
    before = driver.job
    operation = command(driver, kind, **ARGUMENTS[kind])
    (how, code, text), after = TABLE[kind, phase]
    assert (operation.standing.value, operation.exit_code) == (how, code)
    assert operation.answer.startswith(text.format(phase=phase))
    assert driver.job.phase.value == after
    if operation.standing is Standing.REFUSED:
        assert replace(driver.job, operations=()) == before, "what is refused changes nothing"
    again = driver.happen(OperatorCommand(make(kind, **ARGUMENTS[kind])))
    assert again.operations == (operation,), "one that is known has no second effect"


# --- abort ----------------------------------------------------------------------------------------------------------


def test_an_abort_ends_the_job_when_its_ranks_are_gone() -> None:
    driver = runs()
    command(driver, "abort", reason="wrong data")
    assert isinstance(driver.command(0), Abort)
    driver.everyone(RunPhase.STOPPED)
    assert (driver.job.phase, driver.job.exit_code) == (Phase.STOPPED, EXIT_ABORTED)
    assert standing(driver).standing is Standing.DONE
    assert standing(driver).answer == f"the job has ended: aborted by {WHO}: wrong data"


def test_an_abort_takes_the_place_of_a_restart() -> None:
    driver = restarting()
    command(driver, "abort")
    driver.everyone(RunPhase.STOPPED)
    assert driver.job.phase is Phase.STOPPED


def test_a_second_abort_is_refused_and_names_the_first() -> None:
    driver = runs()
    command(driver, "abort", reason="wrong data")
    second = command(driver, "abort", 2)
    assert (second.standing, second.exit_code) == (Standing.REFUSED, 68)
    assert second.answer == f"the job is being aborted already: aborted by {WHO}: wrong data"


def test_an_abort_with_evidence_has_the_stacks_saved_first() -> None:
    driver = runs()
    assert command(driver, "abort", evidence=True).answer.startswith("the ranks' stacks are saved")
    told = driver.command(0)
    assert isinstance(told, Abort)
    assert told.evidence
    assert driver.job.state.evidence, "a new leader asks for them too"
    without = runs()
    command(without, "abort")
    assert without.command(0) == replace(told, evidence=False)


def test_an_abort_that_a_lost_node_overtakes_still_ends_the_job() -> None:
    driver = runs()
    command(driver, "abort")
    driver.lose(0)
    driver.everyone(RunPhase.STOPPED)
    assert (driver.job.phase, standing(driver).standing) == (Phase.STOPPED, Standing.DONE)


# --- restart --------------------------------------------------------------------------------------------------------


def test_a_restart_is_a_new_generation_that_costs_nothing() -> None:
    driver = runs()
    command(driver, "restart", from_step=700)
    assert driver.job.state.from_step == 700, "a new leader knows it"
    driver.everyone(RunPhase.STOPPED)
    driver.commit()
    start = driver.command(0)
    assert isinstance(start, Start)
    assert (start.generation, start.restart_count, start.from_step) == (2, 0, 700)
    assert standing(driver).standing is Standing.ACCEPTED
    driver.everyone(RunPhase.RUNNING)
    assert standing(driver).standing is Standing.DONE
    assert standing(driver).answer == "generation 2 runs: 6 ranks on 3 nodes"
    assert driver.job.from_step == -1, "only once"


def test_a_restart_of_a_generation_that_fails_for_good_meanwhile() -> None:
    driver = running(3, 3, restarts=0)
    command(driver, "restart")
    driver.lose(0)
    driver.everyone(RunPhase.STOPPED)
    driver.wait(driver.policy.join_timeout)
    assert (standing(driver).standing, standing(driver).exit_code) == (Standing.FAILED, 68)
    assert standing(driver).answer.startswith("the job ended instead (failed): 2 of at least 3 nodes came")


# --- drain and undrain ----------------------------------------------------------------------------------------------


def test_a_drained_node_leaves_and_the_rest_goes_on() -> None:
    driver = runs()
    command(driver, "drain", node="h1", reason="new disk")
    leave = driver.command(1)
    assert leave == Leave(f"drained by {WHO}: new disk")
    assert isinstance(driver.command(0), Start), "the others are not disturbed before it leaves"
    driver.tell(1, RunPhase.RUNNING, 1, leaving=True, leaving_exit_code=143)
    assert driver.job.phase is Phase.ABORTING
    driver.everyone(RunPhase.STOPPED)
    driver.tell(1, RunPhase.STOPPED, 1, leaving=True, leaving_exit_code=143)
    assert [m.node_id for m in driver.job.members] == ["n0", "n2"]
    assert standing(driver).standing is Standing.ACCEPTED
    driver.lose(1)
    assert standing(driver).standing is Standing.DONE
    assert standing(driver).answer == "h1 has left the job; h1 stays out until `elaunch undrain h1`"


def test_a_drained_host_stays_out_until_it_is_undrained() -> None:
    driver = runs()
    command(driver, "drain", node="h1")
    driver.lose(1)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    back = replace(make_node(8), host="h1", joined=ORDER + 50)
    driver.happen(NodeJoined(back))
    driver.tell(8)
    driver.wait(60)
    assert driver.job.generation == 2, "no growth for it"
    assert driver.command(8) == Wait(f"drained by {WHO}; it takes part after `elaunch undrain h1`")
    assert command(driver, "drain", 2, node="h1").answer == f"h1 is drained already: drained by {WHO}"
    assert command(driver, "undrain", 3, node="h1").answer == "h1 may take part again"
    driver.wait(driver.policy.settle)
    driver.everyone(RunPhase.STOPPED)
    assert [m.node_id for m in driver.job.members] == ["n0", "n2", "n8"]


def test_a_node_named_by_its_id_leaves_its_neighbour_alone() -> None:
    driver = Driver(1, 3, 0)
    driver.arrive(0, 1)
    driver.happen(NodeJoined(replace(make_node(2), host="h1")))
    driver.tell(2)
    driver.up()
    command(driver, "drain", node="n2")
    assert isinstance(driver.command(2), Leave)
    assert isinstance(driver.command(1), Start)
    command(driver, "drain", 2, node="n1")
    assert isinstance(driver.command(2), Leave), "the first drain of the host stands"
    assert isinstance(driver.command(1), Leave)


def test_a_drain_that_would_end_the_job_is_refused() -> None:
    driver = running(3, 3)
    refused = command(driver, "drain", node="h1")
    assert refused.exit_code == 68
    assert refused.answer.startswith("without h1 the job would have 2 of at least 3 nodes and would end;")


def test_the_only_node_of_a_waiting_job_is_not_drained() -> None:
    driver = waiting()
    assert command(driver, "drain", node="h0").exit_code == 68


# --- scale ----------------------------------------------------------------------------------------------------------


def test_a_job_scaled_down_goes_on_with_fewer_nodes() -> None:
    driver = runs()
    operation = command(driver, "scale", min_nodes=1, max_nodes=2, reason="night")
    assert operation.answer == "1:2 nodes instead of 2:3; 3 nodes run, the next generation has 2 at most"
    assert driver.job.reason.text == f"scaled to 1:2 nodes by {WHO}: night"
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    assert [m.node_id for m in driver.job.members] == ["n0", "n1"]
    assert driver.job.restart_count == 0
    assert standing(driver).answer == "generation 2 runs: 4 ranks on 2 nodes"
    assert driver.command(2) == Wait("the job has all the nodes that it may have; this one is a spare")


def test_a_job_scaled_up_takes_in_those_that_wait() -> None:
    driver = running(1, 1)
    driver.arrive(1)
    driver.wait(60)
    assert driver.job.generation == 1
    assert command(driver, "scale", min_nodes=1, max_nodes=2).answer == (
        "1:2 nodes instead of 1:1; now 1 node, 1 more waiting"
    )
    driver.wait(driver.policy.settle)
    driver.everyone(RunPhase.STOPPED)
    assert [m.node_id for m in driver.job.members] == ["n0", "n1"]


def test_a_least_number_above_what_runs_counts_from_the_next_generation() -> None:
    driver = running(1, 2)
    told = command(driver, "scale", min_nodes=3, max_nodes=3).answer
    assert "runs on, and the next one waits up to 30 s (last_call_timeout) for 3 nodes" in told
    assert driver.job.phase is Phase.RUNNING
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    assert driver.job.phase is Phase.WAITING
    driver.arrive(2)
    assert len(driver.job.members) == 3


@pytest.mark.parametrize("leaders", [1, 2])
def test_a_restart_after_a_scaling_to_more_than_there_are_goes_on_with_those_that_there_are(leaders: int) -> None:
    driver = running(1, 2)
    command(driver, "scale", min_nodes=4, max_nodes=8)
    driver.wait(3600)
    assert (driver.job.phase, driver.job.generation) == (Phase.RUNNING, 1), "it is not stopped for that"
    command(driver, "restart", 2)
    driver.everyone(RunPhase.STOPPED)
    assert driver.job.phase is Phase.WAITING
    assert waiting_for(driver.job).startswith("2 of the 4 nodes that the job was scaled to are here (restarted by")
    for _ in range(leaders - 1):
        driver.another_leads()
        for number in range(2):
            driver.tell(number, RunPhase.STOPPED, 1)
    assert driver.job.last_call == driver.now + 30.0
    driver.wait(29.9)
    assert driver.job.phase is Phase.WAITING
    driver.wait(0.2)
    driver.up()
    assert (driver.job.phase, driver.job.generation, len(driver.job.members)) == (Phase.RUNNING, 2, 2)
    assert leaders > 1 or standing(driver, 2).standing is Standing.DONE
    driver.arrive(2, 3)  # they come at last: from now on there are to be four
    driver.wait(driver.policy.settle * 2)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    assert (driver.job.generation, len(driver.job.members)) == (3, 4)
    driver.lose(3)
    driver.everyone(RunPhase.STOPPED)
    driver.wait(60)
    assert driver.job.phase is Phase.WAITING
    assert waiting_for(driver.job).startswith("3 of at least 4 nodes are here")
    driver.wait(driver.policy.join_timeout)
    assert driver.job.reason.code == "join_timeout"


def test_a_node_that_leaves_a_job_which_was_scaled_to_more_than_there_are_does_not_end_it() -> None:
    driver = running(1, 3)
    command(driver, "scale", min_nodes=5, max_nodes=8)
    assert command(driver, "drain", 2, node="h2").standing is Standing.ACCEPTED
    driver.tell(2, RunPhase.RUNNING, 1, leaving=True)
    assert driver.job.verdict is None
    driver.everyone(RunPhase.STOPPED)
    driver.lose(2)
    driver.wait(driver.policy.last_call_timeout)
    assert len(driver.job.members) == 2


def test_scaling_to_what_it_is_changes_nothing() -> None:
    driver = runs()
    assert command(driver, "scale", min_nodes=2, max_nodes=3).answer == "the job has 2:3 nodes already; nothing changes"
    assert not driver.job.scaled


# --- signal and stacks ----------------------------------------------------------------------------------------------


def test_a_signal_goes_to_the_node_of_its_rank() -> None:
    driver = runs()
    command(driver, "signal", signal=10, rank=3)
    assert requests_for(driver.job, "n0") == []
    assert requests_for(driver.job, "n1") == [Signal("op1", 1, 10, (1,))]
    driver.tell(1, RunPhase.RUNNING, 1, answers=(Answer("op1", True, "sent"),))
    assert (standing(driver).standing, standing(driver).answer) == (Standing.DONE, "SIGUSR1 was sent on 1 of 1 node")
    assert requests_for(driver.job, "n1") == []


def test_a_rank_that_is_not_there() -> None:
    operation = command(runs(), "stacks", rank=6)
    assert (operation.exit_code, operation.answer) == (66, "no rank 6 in generation 1: it has 6")


def test_nodes_that_are_lost_or_silent_do_not_hold_up_the_answer() -> None:
    driver = runs()
    command(driver, "stacks")
    driver.tell(0, RunPhase.RUNNING, 1, answers=(Answer("op1", True, "File a.py"),))
    driver.lose(1)
    assert standing(driver).standing is Standing.ACCEPTED
    driver.wait(driver.deadline() or 0.0)
    assert standing(driver).answer == "stacks came from 1 of 3 nodes"
    assert standing(driver).answers == {
        "n0": "File a.py",
        "n1": "error: the node was lost before it answered",
        "n2": "error: no answer in time",
    }


def test_nodes_that_all_say_no_make_it_fail() -> None:
    driver = runs()
    command(driver, "signal", signal=10, rank=0)
    driver.tell(0, RunPhase.RUNNING, 1, answers=(Answer("op1", False, "generation 1 does not run here"),))
    assert (standing(driver).standing, standing(driver).exit_code) == (Standing.FAILED, 68)
    assert standing(driver).answer == "generation 1 does not run here"


def test_nodes_that_are_all_silent_are_told_apart() -> None:
    driver = runs()
    command(driver, "stacks")
    driver.wait(driver.deadline() or 0.0)
    assert (standing(driver).standing, standing(driver).exit_code) == (Standing.FAILED, 74)


def test_long_answers_are_cut() -> None:
    driver = running(1, 1)
    command(driver, "stacks")
    driver.tell(0, RunPhase.RUNNING, 1, answers=(Answer("op1", True, "x" * (1 << 20)),))
    assert len(standing(driver).answers["n0"]) < 150_000


def test_an_answer_is_looked_for_where_something_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand nodes not a thousand are looked at for each that answers, nor for each that is lost."""
    looks = 0

    def counted(job: Job, operation_id: str, node_id: str, late: bool) -> str | None:
        nonlocal looks
        looks += 1
        return found(job, operation_id, node_id, late)

    found = answering._answer
    monkeypatch.setattr(answering, "_answer", counted)
    driver = running(2, 60)
    command(driver, "signal", signal=10)
    driver.happen(NodeJoined(make_node(60)))
    driver.lose(60)
    for n in range(59):
        driver.tell(n, RunPhase.RUNNING, 1, answers=(Answer("op1", True, "sent"),))
    assert standing(driver).standing is Standing.ACCEPTED
    driver.lose(59)
    assert standing(driver).answer == "SIGUSR1 was sent on 59 of 60 nodes"
    assert "n60" not in standing(driver).answers
    assert looks < 5 * 60


# --- leaders that come and go ---------------------------------------------------------------------------------------


def test_a_new_leader_goes_on_with_what_the_last_had_accepted() -> None:
    driver = runs()
    command(driver, "scale", min_nodes=1, max_nodes=4)
    command(driver, "drain", 2, node="h1")
    command(driver, "stacks", 3)
    state, plan = driver.job.state, driver.job.plan
    nodes = [view.node for view in driver.job.nodes.values()]
    left = tuple(o for o in driver.job.operations if o.standing.open)
    driver.job = resume(driver.policy, state, plan, nodes, driver.now, left)
    for number in range(3):
        driver.tell(number, RunPhase.RUNNING, 1)
    assert (driver.job.policy.min_nodes, driver.job.policy.max_nodes) == (1, 4)
    assert isinstance(driver.command(1), Leave)
    assert requests_for(driver.job, "n0") == [Stacks("op3", 1, ())]
    driver.lose(1)
    assert standing(driver, 2).standing is Standing.DONE


def test_a_command_of_a_run_that_is_over_is_no_other_runs() -> None:
    driver = Driver(1, 1, 0)
    driver.happen(NodeJoined(replace(make_node(0), joined=ORDER + 50)))
    late = command(driver, "abort")
    assert (late.standing, late.exit_code, driver.job.phase) == (Standing.REFUSED, 67, Phase.WAITING)
    begun = replace(make("restart", 2), standing=Standing.ACCEPTED)
    job = resume(driver.policy, None, None, [make_node(0)], driver.now, (begun,))
    assert [(o.standing, o.exit_code) for o in job.operations] == [(Standing.FAILED, 67)]


def test_what_is_over_is_forgotten_once_it_is_written() -> None:
    driver = runs()
    command(driver, "undrain", 1, node="h1")
    command(driver, "stacks", 2)
    driver.happen(OperationsWritten(frozenset({"op1", "op2"})))
    assert [o.id for o in driver.job.operations] == ["op2"]


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        ("dance", {}, "knows no command 'dance'"),
        ("drain", {}, "drain: no node given"),
        ("scale", {"min_nodes": 3, "max_nodes": 2}, "expected MIN:MAX with MIN not above MAX"),
        ("scale", {"min_nodes": 0, "max_nodes": 2}, "expected a number from 1"),
        ("signal", {"signal": "9; rm"}, "signal='9; rm': expected a number from 1 to 64"),
        ("stacks", {"rank": None}, "rank=None: expected a number"),
        ("restart", {"from_step": 1.5}, "from_step=1.5: expected a number"),
    ],
)
def test_what_no_command_line_of_ours_writes_is_refused(kind: str, arguments: dict[str, Any], text: str) -> None:
    driver = runs()
    operation = command(driver, kind, **arguments)
    assert operation.standing is Standing.REFUSED
    assert text in operation.answer


# --- the history ----------------------------------------------------------------------------------------------------


def test_a_commands_course_is_told_in_its_order() -> None:
    driver = runs()
    before = driver.job
    command(driver, "restart", reason="try again")
    assert [entry.code for entry in told(before, driver.job)] == ["command_accepted", "job_aborting"]
    entry = told(before, driver.job)[0]
    assert (entry.who, entry.why, entry.generation) == (WHO, "try again", 1)
    assert entry.text.startswith(f"restart by {WHO}: try again: accepted: generation 1 is being stopped")
    driver.everyone(RunPhase.STOPPED)
    driver.commit()
    before = driver.job
    driver.everyone(RunPhase.RUNNING)
    assert [entry.code for entry in told(before, driver.job)] == ["job_running", "command_done"]


def test_a_thousand_nodes_are_one_line() -> None:
    entries = [Entry("node_gone", f"node h{n} left or was lost", 3, hosts=(f"h{n}",)) for n in range(1000)]
    (line,) = merged([Entry("leading", "h0 leads"), *entries])[1:]
    assert line.text == "1000 nodes left or were lost: h0, h1, h2, h3, h4, h5, h6, h7 and 992 more"


def test_what_hosts_have_saved_is_not_told_as_if_they_were_lost() -> None:
    """Each one's sentence is told, so that one sees which rank waits where; of many, the rest by name."""
    entries = [Entry("evidence_saved", f"h{n}: rank {n} waits", 3, hosts=(f"h{n}",)) for n in range(1000)]
    assert [line.text for line in merged(entries[:2])] == ["h0: rank 0 waits", "h1: rank 1 waits"]
    *told, rest = merged(entries)
    assert [line.text for line in told] == [f"h{n}: rank {n} waits" for n in range(8)]
    assert rest.text == "992 more hosts have saved theirs: h8, h9, h10, h11, h12, h13, h14, h15 and 984 more"
