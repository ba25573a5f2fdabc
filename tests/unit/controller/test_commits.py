"""What a leader makes of the checkpoints that ranks tell of: which may be recorded, and from where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_makers import START, Driver, running

from elaunch.controller import rewinding, suspects
from elaunch.controller.commands import Abort, Start
from elaunch.controller.commits import ruled
from elaunch.controller.cost import Cost, cost
from elaunch.controller.history import told
from elaunch.controller.job import Job
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.operations import operate
from elaunch.controller.registrar import BURST, REFILL, STEP_MISSING, Registrar
from elaunch.controller.resuming import resume
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.memory import History
from elaunch.rendezvous.plan import Rewind
from elaunch.rendezvous.records import Checkpoint, Phase, decode, encode
from elaunch.rendezvous.state import UNTOLD, State
from elaunch.reports import MISSING, RESTORED, RESTORING, Ask, Commit, Line, Receipts, Reply


def ask(step: int, generation: int = 1, rank: int = 0, number: int = 1, digest: str = "ab") -> Ask:
    return Ask(generation, rank, number, Commit(step, f"runs/a/{step}", digest, 100, 2.0))


def commit(job: Job, *steps: int, **more: Any) -> Job:
    """``job`` after node 0 has committed these."""
    for step in steps:
        job, reply = ruled(job, "n0", ask(step, job.generation, **more), 5000.0 + step)
        assert reply.accepted, reply.text
    return job


def restarted(driver: Driver, from_step: int = -1) -> Driver:
    """Its next generation runs, by an operator's wish."""
    arguments = {"from_step": from_step} if from_step >= 0 else {}
    name = f"op{driver.job.generation}"
    operation = Operation(name, "restart", "ada@login1", 1.0, arguments=arguments, order=10**6)
    driver.job = operate(driver.job, operation, driver.now)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    return driver


def failed(driver: Driver, number: int = 0) -> Driver:
    """A rank of it fails, and the next generation runs."""
    driver.fail(number)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    return driver


# --- who may commit -------------------------------------------------------------------------------------------------


def test_a_commit_is_recorded_with_what_is_known_of_it() -> None:
    job = commit(running(2, 2).job, 60)
    assert job.checkpoint == Checkpoint(60, "runs/a/60", 1, 0, "ab", 100, 2.0, 5060.0, 0, "h0")
    assert decode(Checkpoint, encode(job.checkpoint)) == job.checkpoint


def test_the_same_asked_again_has_the_same_answer() -> None:
    """As after a change of the leader, or of a stream that ended with the answer."""
    once = commit(running(2, 2).job, 60)
    again, reply = ruled(once, "n0", ask(60), 9999.0)
    assert (again, reply) == (once, Reply(1, 0, 1, True))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (ask(59), "generation 1 has committed step 60 already"),
        (ask(60, digest="cd"), "generation 1 has committed step 60 already, and it was another checkpoint"),
        (ask(70, generation=0), "generation 0 is over: the present one is 1"),
        (ask(70, generation=2), "generation 2 is over: the present one is 1"),
        (ask(70, rank=2), "generation 1 is over for rank 2: nothing of it may be left on this node"),
    ],
)
def test_what_may_not_be_recorded(other: Ask, text: str) -> None:
    job = commit(running(2, 2).job, 60)
    assert ruled(job, "n0", other, 1.0) == (job, Reply(other.generation, other.rank, 1, False, text))


def test_a_generation_may_commit_until_the_next_one_is_planned() -> None:
    """What a program saves when it is given notice is committed while its generation is being stopped."""
    driver = running(1, 2)
    driver.job = commit(driver.job, 60)
    driver.tell(1, RunPhase.RUNNING, 1, leaving=True)
    assert isinstance(driver.command(0), Abort)
    driver.job = commit(driver.job, 61)
    driver.everyone(RunPhase.STOPPED)
    assert (driver.job.phase, driver.job.generation) == (Phase.STARTING, 2)
    assert not ruled(driver.job, "n0", ask(62, 1), 1.0)[1].accepted
    assert not ruled(driver.job, "n0", ask(62, 2), 1.0)[1].accepted, "its plan is not written yet"
    driver.commit()
    commit(driver.job, 5)  # whatever it has restored: within a generation only steps go up


def test_a_job_that_is_over_or_waits_takes_no_commit() -> None:
    driver = running(2, 2)
    driver.lose(1)
    driver.tell(0, RunPhase.STOPPED, 1)
    assert driver.job.phase is Phase.WAITING
    assert not ruled(driver.job, "n0", ask(60), 1.0)[1].accepted
    driver = running(1, 1)
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    assert not ruled(driver.job, "n0", ask(60), 1.0)[1].accepted


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("commit"), st.integers(0, 3), st.integers(0, 9)),
            st.tuples(st.sampled_from(["fail", "restart"])),
        ),
        max_size=12,
    )
)
def test_the_record_never_goes_back_to_an_older_generation(happened: Sequence[Any]) -> None:
    driver = running(2, 2, restarts=100, crash_loop=0)
    for what, *values in happened:
        before = driver.job.checkpoint
        if what == "commit":
            generation, step = values
            driver.job, reply = ruled(driver.job, "n0", ask(step, generation), 1.0)
            assert reply.accepted <= (generation == driver.job.generation)
        elif what == "fail":
            failed(driver)
        else:
            restarted(driver)
        after = driver.job.checkpoint
        if before is not None:
            assert after is not None
            assert (after.generation, after.step) >= (before.generation, before.step)


# --- what a restart is worth, and which checkpoints are suspect -----------------------------------------------------


def test_a_commit_is_progress_and_fills_the_budget_again() -> None:
    driver = running(1, 1, restarts=1, restart_window=10.0)
    driver.job = commit(driver.job, 10)
    failed(driver)
    driver.wait(60)
    driver.job = commit(driver.job, 20)
    failed(driver)
    assert (driver.job.phase, driver.job.history.checkpoint) == (Phase.RUNNING, 20)
    driver.wait(60)
    driver.fail(0)
    driver.everyone(RunPhase.STOPPED)
    assert driver.job.phase is Phase.FAILED, "nothing was committed since"


def test_a_checkpoint_from_which_three_in_a_row_failed_is_suspect() -> None:
    driver = running(1, 1, restarts=100)
    driver.job = commit(driver.job, 40, 60)
    failed(driver)
    for _ in range(3):
        start = driver.command(0)
        assert isinstance(start, Start)
        assert (start.avoid_steps, start.recorded_step) == ((), 60)
        driver.job = replace(driver.job, restored=60)
        before = driver.job
        failed(driver)
    (entry,) = [entry for entry in told(before, driver.job) if entry.code == "checkpoint_suspect"]
    assert entry.text.startswith("the checkpoint of step 60 is suspect: ")
    start = driver.command(0)
    assert isinstance(start, Start)
    assert start.avoid_steps == (60,)
    driver.another_leads(decode(State, encode(driver.job.state)))
    assert driver.job.history.suspects == (60,), "a new leader knows it"
    restarted(driver, from_step=60)
    start = driver.command(0)
    assert isinstance(start, Start)
    assert (start.from_step, start.avoid_steps) == (60, ()), "an operator knows better"


def test_a_checkpoint_that_is_made_anew_is_not_suspect() -> None:
    driver = running(1, 1)
    driver.job = replace(driver.job, history=History(suspects=(40, 60)))
    assert commit(driver.job, 60).history.suspects == (40,)


def row(*restored: int | str, after: int = 3) -> History:
    """The history of generations that failed after they had gone on from these, or made progress ("+")."""
    history = History()
    for one in restored:
        advanced = one == "+"
        history = suspects.reckoned(history, -1 if isinstance(one, str) else one, advanced=advanced, after=after)
    return history


@pytest.mark.parametrize(
    ("restored", "found"),
    [
        ([60, 60], ()),
        ([60, 60, 60], (60,)),
        ([60, 60, "+", 60], ()),
        ([60, 40, 60, 60], ()),
        ([60, 60, UNTOLD, 60], (60,)),  # what ended one before it could say is not held against it, nor for it
        ([-1, -1, -1, -1], ()),
        ([60, 60, 60, 40, 40, 40], (60, 40)),
    ],
)
def test_the_row_of_failures(restored: list[int | str], found: tuple[int, ...]) -> None:
    assert row(*restored).suspects == found
    assert row(*restored, after=0).suspects == ()


def test_suspects_are_bounded() -> None:
    steps = [step for step in range(100) for _ in range(3)]
    assert row(*steps).suspects == tuple(range(100 - suspects.MOST, 100))


# --- going back -----------------------------------------------------------------------------------------------------


def test_what_a_job_went_back_from_is_abandoned_once_it_has_gone_on() -> None:
    driver = running(1, 1)
    driver.job = replace(commit(driver.job, 60), step=65)
    restarted(driver, from_step=40)
    start = driver.command(0)
    assert isinstance(start, Start)
    assert (start.from_step, start.recorded_step, start.rewinds) == (40, 60, ())
    driver.job = rewinding.restored(driver.job, 40)
    assert (driver.job.rewinds, driver.job.restored) == ((Rewind(2, 40),), 40)
    assert (driver.job.history.step, driver.job.history.checkpoint) == (40, 40), "41 is progress from now on"
    assert rewinding.restored(driver.job, 40) == driver.job, "each rank may tell it"
    driver.another_leads(decode(State, encode(driver.job.state)))
    assert driver.job.rewinds == (Rewind(2, 40),)
    failed(driver)
    start = driver.command(0)
    assert isinstance(start, Start)
    assert (start.from_step, start.recorded_step, start.rewinds) == (-1, -1, (Rewind(2, 40),))


def test_a_rewind_takes_the_place_of_those_that_went_back_less_far() -> None:
    job = running(1, 1).job
    for generation, step in ((2, 40), (3, 50), (4, 45), (5, 10), (6, 20)):
        plan = replace(job.plan, from_step=step)  # type: ignore[type-var]
        job = rewinding.restored(replace(job, generation=generation, plan=plan), step)
    assert job.rewinds == (Rewind(5, 10), Rewind(6, 20))


def test_going_on_from_where_nobody_asked_abandons_nothing() -> None:
    job = rewinding.restored(running(1, 1).job, 40)
    assert (job.restored, job.rewinds) == (40, ())


def test_a_wish_stands_until_ranks_have_begun_on_it() -> None:
    driver = running(1, 2, restarts=5)
    restarted(driver, from_step=40)
    assert driver.job.from_step == -1
    operation = Operation("again", "restart", "ada@login1", 1.0, arguments={"from_step": 30}, order=10**6)
    driver.job = operate(driver.job, operation, driver.now)
    driver.everyone(RunPhase.STOPPED)
    driver.commit()
    driver.lose(1)  # before all were up
    driver.everyone(RunPhase.STOPPED)
    assert driver.job.plan is not None
    assert (driver.job.generation, driver.job.plan.from_step) == (4, 30)
    driver.up()
    failed(driver)
    assert driver.job.plan.from_step == -1


# --- the registrar --------------------------------------------------------------------------------------------------


class Leader:
    """A registrar with a job, and what it has answered and refused."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.registrar = Registrar(lambda reason, **_: self.refused.append(reason))
        self.refused: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.answers: list[tuple[str, Receipts]] = []

    def answer(self, node_id: str, receipts: Receipts) -> None:
        self.answers.append((node_id, receipts))

    def hear(self, number: int = 0, asks: Sequence[Ask] = (), lines: Sequence[Line] = ()) -> None:
        status = NodeStatus(f"n{number}", asks=tuple(asks), lines=tuple(lines))
        self.driver.job, entries = self.registrar.hear(self.driver.job, status, self.driver.now)
        self.events += [(entry.code, entry.text) for entry in entries]

    def tell(self, *, recorded: bool = True, noted: bool = True) -> list[tuple[str, Receipts]]:
        self.answers.clear()
        self.registrar.tell(self, recorded=recorded, noted=noted)
        return self.answers


def line(number: int, kind: str, step: int = -1, *, generation: int = 1, rank: int = 0, text: str = "") -> Line:
    return Line(number, generation, rank, kind, text, step)


def test_a_commit_is_answered_once_it_is_written_and_a_refusal_at_once() -> None:
    leader = Leader(running(2, 2))
    leader.hear(asks=[ask(60), ask(9, generation=7, rank=1)])
    refused = Reply(7, 1, 1, False, "generation 7 is over: the present one is 1")
    assert leader.tell(recorded=False) == [("n0", Receipts(0, (refused,)))]
    assert leader.tell(recorded=False) == []
    assert leader.tell() == [("n0", Receipts(0, (Reply(1, 0, 1, True),)))]
    assert leader.tell() == []
    assert leader.refused == ["stale commit"]
    assert [code for code, _ in leader.events] == ["checkpoint_committed", "checkpoint_refused"]


def test_whoever_asks_again_is_answered_again() -> None:
    leader = Leader(running(2, 2))
    for _ in range(2):
        leader.hear(asks=[ask(60)])
        assert leader.tell() == [("n0", Receipts(0, (Reply(1, 0, 1, True),)))]
    another = Leader(leader.driver)  # the next leader, which has the record from etcd
    another.hear(asks=[ask(60)])
    assert another.tell() == [("n0", Receipts(0, (Reply(1, 0, 1, True),)))]
    assert another.events == []


def test_of_many_commits_the_first_of_a_generation_is_an_event() -> None:
    leader = Leader(running(1, 1))
    for step in range(0, 100, 10):
        leader.hear(asks=[ask(step, number=step)])
    assert leader.events == [
        ("checkpoint_committed", "generation 1 has committed its first checkpoint: step 0, runs/a/0")
    ]


def test_a_line_is_noted_once_and_acknowledged_when_that_is_written() -> None:
    leader = Leader(running(2, 2))
    lines = [line(1, "checkpoint_failed", text="no space"), line(2, "checkpoint_x")]
    leader.hear(lines=lines)
    assert leader.tell(noted=False) == []
    leader.hear(lines=lines)
    assert leader.tell() == [("n0", Receipts(2))]
    assert leader.tell() == []
    assert leader.events == [("checkpoint_failed", "rank 0 (h0): no space"), ("checkpoint_x", "rank 0 (h0): ")]
    leader.hear(lines=lines[1:])  # the stream ended before it heard
    assert leader.tell() == [("n0", Receipts(2))]
    assert len(leader.events) == 2


def test_what_thousands_of_ranks_say_does_not_fill_the_history() -> None:
    leader = Leader(running(2, 2))
    for number in range(1, 1001):
        leader.hear(lines=[line(number, "checkpoint_failed", text="no space")])
        leader.hear(asks=[ask(9, generation=7, number=number)])
    codes = [code for code, _ in leader.events]
    assert (codes.count("checkpoint_failed"), codes.count("checkpoint_refused")) == (BURST, 1)
    assert leader.refused == ["stale commit"] * 1000
    leader.driver.now += REFILL
    leader.hear(lines=[line(1001, "checkpoint_failed", text="no space")])
    assert leader.events[-1][1] == f"rank 0 (h0): no space ({1000 - BURST} more before it were not noted)"


def test_another_run_under_the_same_name_takes_nothing_that_was_abandoned() -> None:
    driver = running(1, 1)
    driver.job = replace(driver.job, rewinds=(Rewind(1, 40),))
    driver.tell(0, RunPhase.SUCCEEDED, 1)
    state = driver.job.state
    assert resume(driver.policy, state, driver.job.plan, [], START).rewinds == (Rewind(1, 40),)
    running_state = replace(state, phase=Phase.RUNNING)
    assert resume(driver.policy, running_state, driver.job.plan, [], START).rewinds == (Rewind(1, 40),)


def test_a_restore_is_one_event_and_one_that_differs_is_another() -> None:
    leader = Leader(running(2, 2))
    leader.hear(lines=[line(1, RESTORING, 60), line(2, RESTORED, 60, text="p"), line(3, RESTORED, 60, rank=1)])
    leader.hear(1, lines=[line(1, RESTORED, 60, rank=2), line(2, RESTORED, 40, rank=3)])
    assert leader.events == [
        ("checkpoint_restored", "generation 1 goes on from step 60 (p)"),
        (
            "checkpoint_restores_differ",
            "rank 3 (h1) goes on from step 40, and another of generation 1 goes on from step 60",
        ),
    ]
    leader.hear(lines=[line(4, RESTORED, 80, generation=7)])
    assert leader.driver.job.restored == 40, "a stale generation has no say"


@pytest.mark.parametrize("exit_first", [True, False])
@pytest.mark.parametrize("restarts", [0, 3])
def test_a_step_that_is_not_there_costs_nothing(exit_first: bool, restarts: int) -> None:
    """Though its ranks fail of it, and another node's exit may be heard of first."""
    driver = running(2, 2, restarts=restarts)
    restarted(driver, from_step=999)
    leader = Leader(driver)
    if exit_first:
        driver.fail(1)
    leader.hear(lines=[line(1, MISSING, 999, generation=2, text="there are 40, 60")])
    if not exit_first:
        driver.fail(1)
    assert (driver.job.reason.code, driver.job.verdict) == (STEP_MISSING, None)
    driver.everyone(RunPhase.STOPPED)
    driver.up()
    assert (driver.job.phase, driver.job.generation, driver.job.restart_count) == (Phase.RUNNING, 3, 0)
    assert (driver.job.plan.from_step, driver.job.hosts) == (-1, ())  # type: ignore[union-attr]
    leader.hear(lines=[line(2, MISSING, 999, generation=3)])
    assert driver.job.phase is Phase.RUNNING, "nobody has asked for it"


# --- the cost -------------------------------------------------------------------------------------------------------


def test_what_a_failure_would_cost() -> None:
    driver = running(1, 1)
    now = START + 100
    assert cost(driver.job, -1, now) == Cost(100.0, -1)
    assert cost(driver.job, 7, now) == Cost(100.0, 7)
    driver.job = replace(driver.job, restored=5)
    assert cost(driver.job, 7, now) == Cost(100.0, 2)
    job, _ = ruled(driver.job, "n0", ask(6), START + 90 + driver.job.wall_offset)
    assert cost(job, 7, now) == Cost(12.0, 1), "what was done while it was saved is not in it"
    assert cost(job, 3, now) == Cost(12.0, -1), "a program may count as it likes"
    driver.job = job
    assert cost(restarted(driver).job, 7, now) == Cost(100.0, 1)
    driver.tell(0, RunPhase.SUCCEEDED, driver.job.generation)
    assert cost(driver.job, 7, now).seconds == 0.0
