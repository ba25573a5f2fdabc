"""When a generation is worth another one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.controller.places import Place, common_place, place_of
from elaunch.controller.restarts import (
    EXIT_CRASH_LOOP,
    Cause,
    Decision,
    Ending,
    RestartPolicy,
    decide,
    remaining,
)
from elaunch.rendezvous.memory import History
from elaunch.rendezvous.records import Phase, Reason, decode, encode
from elaunch.rendezvous.state import RankExit, State

TRACE = 'Traceback (most recent call last):\n  File "{file}", line 3, in <module>\n  File "{file}", line {line}, in f\n'
START = 1e9
EMPTY = History()
STATE = State(Phase.RUNNING, 1, 0, Reason("start", ""))


def raised(rank: int, message: str = "ValueError: no", line: int = 31, file: str = "train.py") -> RankExit:
    trace = TRACE.format(file=file, line=line) + message + "\n"
    return RankExit(rank, rank, 4000 + rank, 1, START, message=message, traceback=trace)


def killed(rank: int, code: int = -15) -> RankExit:
    return RankExit(rank, rank, 4000 + rank, code, START, message="Signal 15 received")


def failed(*exits: RankExit, world: int = 4, step: int = -1, seconds: float = 1.0, checkpoint: int = -1) -> Ending:
    return Ending(Cause.RANK_FAULT, "rank 0 exited with code 1", exits, world, seconds, step, checkpoint)


def everywhere(message: str = "ValueError: no", line: int = 31, **more: float) -> Ending:
    return failed(*(raised(rank, message, line) for rank in range(4)), **more)  # type: ignore[arg-type]


def play(policy: RestartPolicy, endings: list[Ending], every: float = 10.0) -> list[Decision]:
    """The decisions up to the first that ends the job, and after which history."""
    history, found = EMPTY, []
    for number, ending in enumerate(endings):
        decision = decide(policy, history, ending, START + number * every)
        found.append(decision)
        history = decode(State, encode(replace(STATE, history=decision.history))).history
        if not decision.restart:
            break
    return found


# --- the budget ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 5))
def test_a_budget_that_never_refills_is_torchruns(restarts: int) -> None:
    found = play(RestartPolicy(restarts), [failed(raised(n % 4, line=n), step=n) for n in range(10)])
    assert [d.restart for d in found] == [True] * restarts + [False]
    assert found[-1].exit_code == 1
    assert found[-1].reason.code == "rank_fault"
    assert (f"no restart left of {restarts}" in found[-1].reason.text) == (restarts > 0)


def test_restarts_older_than_the_window_do_not_count_where_there_was_progress_since() -> None:
    policy = RestartPolicy(2, window=100.0)
    endings = [failed(killed(0, -9), step=n) for n in range(20)]
    assert all(d.restart and d.charged for d in play(policy, endings, every=60.0))
    assert [d.restart for d in play(policy, endings, every=30.0)] == [True, True, False]


def test_restarts_without_progress_since_count_however_old() -> None:
    policy = RestartPolicy(2, window=100.0, crash_loop=0)
    endings = [failed(killed(0, -9), step=5) for _ in range(5)]
    assert [d.restart for d in play(policy, endings, every=1000.0)] == [True, True, False]


def test_what_is_left_of_the_budget() -> None:
    policy = RestartPolicy(3, window=100.0)
    history = History(charged=(START, START + 50), progressed=START + 60)
    assert remaining(policy, history, START + 60) == 1
    assert remaining(policy, history, START + 120) == 2
    assert remaining(policy, history, START + 200) == 3


@pytest.mark.parametrize("cause", [Cause.NODE_FAULT, Cause.PREEMPTION, Cause.MEMBERSHIP, Cause.OPERATOR])
def test_nodes_that_go_cost_nothing(cause: Cause) -> None:
    found = play(RestartPolicy(0), [Ending(cause, "gone", step=n) for n in range(10)])
    assert all(d.restart and not d.charged and d.reason.code == cause.value for d in found)


def test_a_hang_costs_a_restart() -> None:
    (decision,) = play(RestartPolicy(0), [Ending(Cause.HANG, "rank 3 hangs")])
    assert (decision.restart, decision.reason.code, decision.exit_code) == (False, "hang", 1)


def test_on_failure_stop() -> None:
    policy = RestartPolicy(9, on_failure="stop")
    (decision,) = play(policy, [failed(killed(1, -9))])
    assert not decision.restart
    assert decision.reason.text.endswith("--on-failure=stop")
    assert play(policy, [Ending(Cause.PREEMPTION, "the scheduler wants the node back")])[0].restart


# --- the crash loop -----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([Cause.RANK_FAULT, Cause.NODE_FAULT, Cause.HANG]), min_size=10, max_size=10))
def test_restarts_that_lead_nowhere_end_with_the_code_for_do_not_requeue(causes: list[Cause]) -> None:
    found = play(RestartPolicy(100, crash_loop=3), [Ending(cause, "bad", step=7) for cause in causes])
    assert [d.restart for d in found] == [True, True, True, True, False]  # the first did reach step 7
    last = found[-1]
    assert (last.exit_code, last.reason.code) == (EXIT_CRASH_LOOP, "crash_loop") == (93, "crash_loop")
    assert last.reason.text == "3 restarts in a row led nowhere (no step after 7); the last: bad"


def test_a_step_further_a_checkpoint_or_time_without_steps_is_progress() -> None:
    policy = RestartPolicy(100, crash_loop=2)
    for endings in (
        [failed(killed(0, -9), step=n) for n in range(20)],
        [failed(killed(0, -9), step=5, checkpoint=n) for n in range(20)],
        [failed(killed(0, -9), seconds=300.0) for _ in range(20)],
    ):
        assert all(d.restart for d in play(policy, endings))


def test_time_is_no_progress_where_steps_are_told() -> None:
    endings = [failed(killed(0, -9), step=5, seconds=1e5) for _ in range(9)]
    assert play(RestartPolicy(100, crash_loop=2), endings)[-1].exit_code == 93


def test_a_preemption_is_no_part_of_a_crash_loop() -> None:
    endings = [Ending(Cause.PREEMPTION, "gone") for _ in range(50)]
    assert all(d.restart for d in play(RestartPolicy(0, crash_loop=1), endings))


def test_a_crash_loop_can_be_turned_off() -> None:
    endings = [failed(killed(0, -9)) for _ in range(60)]
    assert len(play(RestartPolicy(50, crash_loop=0), endings)) == 51


# --- errors of the code -------------------------------------------------------------------------------------------


def test_a_name_error_on_all_ranks_before_any_progress_is_not_tried_again() -> None:
    (decision,) = play(RestartPolicy(5), [everywhere("NameError: name 'x' is not defined")])
    assert (decision.restart, decision.reason.code, decision.exit_code) == (False, "code_error", 1)
    assert decision.reason.text == "NameError at train.py:31 (all 4 ranks): rank 0 exited with code 1"


def test_after_progress_it_takes_twice() -> None:
    endings = [everywhere("NameError: x", step=100), everywhere("NameError: x", step=90), everywhere("NameError: x")]
    found = play(RestartPolicy(5), endings)
    assert [(d.restart, d.reason.code) for d in found] == [(True, "code_error")] * 2 + [(False, "code_error")]


def test_another_error_on_all_ranks_is_tried_once_more() -> None:
    first, second = play(RestartPolicy(5), [everywhere(), everywhere(), everywhere()])
    assert (first.restart, first.charged, second.restart) == (True, True, False)
    assert second.reason.text.startswith("ValueError at train.py:31, twice in a row (all 4 ranks): ")


def test_an_error_that_may_be_the_checkpoints_is_tried_once_without_it() -> None:
    endings = [replace(everywhere(), restored=step) for step in (60, 60, 40, 40)]
    found = play(RestartPolicy(9), endings)
    assert [decision.restart for decision in found] == [True, True, False]
    assert [decision.history.suspects for decision in found] == [(), (60,), (60,)]
    assert found[-1].reason.code == "code_error"
    assert [d.restart for d in play(RestartPolicy(9, suspect_after=0), endings)] == [True, False]
    others = [replace(everywhere(), restored=step) for step in (60, 40)]
    assert not play(RestartPolicy(9), others)[-1].restart, "it was not the checkpoint"


def test_another_line_is_another_error() -> None:
    endings = [everywhere(line=n) for n in range(4)]
    assert all(d.restart for d in play(RestartPolicy(9), endings))


def test_one_line_on_different_ranks_in_turn_is_the_programs_though_the_abort_hid_the_rest() -> None:
    endings = [failed(raised(2), killed(0)), failed(raised(1), killed(3))]
    found = play(RestartPolicy(5), endings)
    assert [(d.restart, d.reason.code) for d in found] == [(True, "rank_fault"), (False, "code_error")]


def test_one_line_on_the_same_rank_is_that_ranks_fault() -> None:
    found = play(RestartPolicy(5, crash_loop=0), [failed(raised(2)) for _ in range(9)])
    assert [d.reason.code for d in found] == ["rank_fault"] * 6
    assert len(found) == 6


@pytest.mark.parametrize(
    "message",
    [
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.1]",
        "ConnectionRefusedError: [Errno 111]",
        "TimeoutError: timed out",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "OSError: [Errno 116] Stale file handle",
    ],
)
def test_what_all_ranks_suffer_from_outside_is_no_error_of_the_code(message: str) -> None:
    found = play(RestartPolicy(3, crash_loop=0), [everywhere(message)] * 9)
    assert [d.restart for d in found] == [True, True, True, False]
    assert {d.reason.code for d in found} == {"rank_fault"}


def test_a_lone_rank_may_try_again_unless_it_is_without_hope() -> None:
    flaky = play(RestartPolicy(3, crash_loop=0), [failed(raised(0), world=1)] * 9)
    assert len(flaky) == 4
    (decision,) = play(RestartPolicy(3), [failed(raised(0, "ModuleNotFoundError: No module named 'x'"), world=1)])
    assert decision.reason.text.startswith("ModuleNotFoundError at train.py:31 (the only rank): ")


# --- places -------------------------------------------------------------------------------------------------------


def test_the_place_is_the_innermost_line() -> None:
    assert place_of(raised(0, "KeyError: 'x'", 77, "lib/data.py")) == Place("KeyError", "lib/data.py:77")
    assert place_of(killed(0)) is None
    assert place_of(RankExit(0, 0, 1, 1, 0.0, message="exit code 1")) is None


def test_ranks_at_different_lines_or_without_a_word_have_no_common_place() -> None:
    assert common_place([raised(0), raised(1), killed(2)]) == (Place("ValueError", "train.py:31"), (0, 1))
    assert common_place([raised(0), raised(1, line=5)]) is None
    assert common_place([raised(0), RankExit(1, 1, 1, 1, 0.0)]) is None
    assert common_place([]) is None


@given(st.text(), st.text(), st.integers(-64, 255))
def test_any_text_is_a_place_or_none(message: str, trace: str, code: int) -> None:
    exit = RankExit(0, 0, 1, code, 0.0, message=message, traceback=trace)
    assert place_of(exit) is None or code > 0


# --- anything at all ----------------------------------------------------------------------------------------------

endings = st.builds(
    Ending,
    st.sampled_from([c for c in Cause if c not in (Cause.CRASH_LOOP, Cause.CODE_ERROR)]),
    st.just("ended"),
    st.lists(st.sampled_from([raised(0), raised(1), raised(1, line=9), killed(2)]), max_size=3).map(tuple),
    st.integers(1, 4),
    st.floats(0, 1000),
    st.integers(-1, 5),
    st.integers(-1, 3),
    st.just(1),
    st.integers(-2, 3),
)


@settings(deadline=None)
@given(st.lists(endings, max_size=40), st.integers(0, 4), st.sampled_from([None, 50.0]), st.integers(1, 4))
def test_a_job_that_gets_nowhere_ends_however_it_fails(
    all_endings: list[Ending], restarts: int, window: float | None, loop: int
) -> None:
    policy = RestartPolicy(restarts, window=window, crash_loop=loop)
    found = play(policy, all_endings)
    for decision in found:
        assert decision.restart == (decision.exit_code == 0)
        assert decision.history.fruitless <= loop + 1
    charged = sum(d.charged for d in found)
    if window is None:
        assert charged <= restarts


# --- a directory of checkpoints that is another job's -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DirectoryInUseError", "elaunch.errors.DirectoryInUseError"])
def test_a_directory_that_another_job_has_is_worth_no_restart(kind: str) -> None:
    """Whichever generation finds it so: also one between whose start and the last one's end another has come."""
    told = "/ckpt: job second generation 1 on gpu-3 (pid 42) writes its checkpoints there"
    ends = (killed(1), raised(0, f"{kind}: {told}"))
    for policy in (RestartPolicy(3), RestartPolicy(0), RestartPolicy(0, on_failure="stop")):
        decision = play(policy, [failed(raised(0), step=5), failed(*ends)])[-1]
        assert (decision.restart, decision.exit_code) == (False, 97 if policy.max_restarts else 1)
        assert decide(policy, EMPTY, failed(*ends), START).reason == Reason("directory_in_use", told)


def test_a_program_that_only_speaks_of_it_is_like_any_other() -> None:
    (decision,) = play(RestartPolicy(3), [failed(raised(0, "ValueError: not a DirectoryInUseError: x"))])
    assert decision.restart
