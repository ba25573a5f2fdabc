"""Whether ranks can ever meet, and where each is: certain faults are told, whatever may yet come about is not."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.blame import Culprit, Hang
from elaunch.controller.history import told
from elaunch.controller.job_events import StartRefused
from elaunch.controller.node_status import RunPhase
from elaunch.controller.start_check import GRACE, START_TIMEOUT, Starts, conflict, ended_in
from elaunch.errors import StartCheckError
from elaunch.rendezvous.records import Phase, Reason
from elaunch.start_record import (
    CHECKED,
    IMPORTING,
    LEFT,
    PEER_DISCOVERY,
    STORE_EXCHANGE,
    TRANSPORT,
    StartRecord,
)
from tests.unit.controller.job_makers import make_exit, running


def record(rank: int, world: int = 4, phase: str = STORE_EXCHANGE, **more: object) -> StartRecord:
    values: dict[str, object] = {"asked_rank": rank, "asked_world_size": world, "shared": True}
    made = StartRecord(host="a", rank=rank, world_size=4, generation=1, phase=phase, transport="gloo")
    return replace(made, **(values | more))  # type: ignore[arg-type]


ALL = [record(rank) for rank in range(4)]
ODD = [*ALL[:3], record(3, 5)]
TEXT = "rank 3 (a) asked for a world of 5 ranks, ranks 0, 1, 2 (a) asked for a world of 4 ranks; elaunch started 4"


def starts(*records: StartRecord, now: float = 0.0) -> Starts:
    made = Starts(1, 4)
    made.hear("n1", records, now)
    return made


def test_worlds_of_other_sizes_are_a_fault_once_nobody_can_come_any_more() -> None:
    assert conflict(ODD, 4) == TEXT
    assert conflict(ODD[1:], 4) == ""  # one of which nothing is heard
    assert conflict([record(0, phase=IMPORTING), *ODD[1:]], 4) == ""  # it may yet come
    assert conflict([record(0, error="RuntimeError: gone"), *ODD[1:]], 4) == ""  # it has left
    assert conflict([record(0, phase=CHECKED), *ODD[1:]], 4) == ""


def test_worlds_that_programs_make_on_purpose_are_no_fault() -> None:
    halves = [record(0, 2), record(1, 2), *ALL[2:]]
    assert conflict(halves, 4) == ""  # that of 0 and 1 is complete, and about to be made
    assert conflict([record(rank, 1, asked_rank=0) for rank in range(4)], 4) == ""
    assert conflict([*ALL[:3], record(3, 8, shared=False)], 4) == ""  # it meets others, elsewhere
    assert conflict([record(rank, 8) for rank in range(4)], 4) == ""  # children of theirs may be the rest


def test_ranks_that_are_not_unique_are_a_fault_wherever_the_store_could_not_tell() -> None:
    text = "ranks 0, 3 (a) both ask to be rank 0 of 4, and nobody is rank 3"
    assert conflict([*ALL[:3], record(3, asked_rank=0)], 4) == text
    assert conflict([replace(r, phase=CHECKED) for r in [*ALL[:3], record(3, asked_rank=0)]], 4) == text


def test_a_program_may_begin_anew_in_another_order() -> None:
    """Rank 3 is still in the group before, or has just left it, while the others ask for other ranks than before."""
    others = [record(rank, asked_rank=3 - rank, inits=2) for rank in range(3)]
    for phase in (CHECKED, LEFT):
        assert conflict([*others, record(3, phase=phase, inits=1)], 4) == ""


def test_a_conflict_must_hold_for_a_while() -> None:
    """Records of different nodes are of different moments."""
    known = starts(*ODD[:3])
    assert known.refusal(5.0) == ""
    known.hear("n2", [ODD[3]], 5.0)
    assert known.refusal(5.0 + GRACE / 2) == ""
    known.hear("n2", [ODD[3]], 5.0 + GRACE / 2)  # the same again is no news
    assert known.refusal(5.0 + GRACE, awake=5.0 + GRACE / 2) == "", "what the nodes have told since has yet to be read"
    assert known.refusal(5.0 + GRACE) == TEXT
    known.hear("n2", [ALL[3]], 6.0)
    assert known.refusal(60.0) == ""


def test_records_of_another_generation_and_of_lost_nodes_do_not_count() -> None:
    known = starts(*(replace(r, generation=2) for r in ODD))
    assert known.refusal(60.0) == ""
    known = starts(*ODD[:3])
    known.hear("n2", [ODD[3]], 0.0)
    known.forget("n2")
    assert known.refusal(60.0) == ""


def test_a_start_that_hangs_is_told_with_the_phase_of_every_rank() -> None:
    hang = Hang("hung", "rank 1 (a) has not entered it", group="0/init_process_group")
    known = starts(record(0), record(2, phase=TRANSPORT), record(3, phase=PEER_DISCOVERY))
    found = known.explained(hang)
    assert found is not None
    assert found.code == START_TIMEOUT
    assert found.text == (
        "rank 1 (a) has not entered it; phase importing (has not come to init_process_group): rank 1; phase "
        "peer_discovery (connects to the store): rank 3; phase store_exchange (waits at the store for the others): "
        "rank 0; phase transport (connects to its peers): rank 2"
    )
    frozen = replace(hang, code="frozen")
    assert getattr(known.explained(frozen), "code", "") == "frozen"
    assert known.explained(None) is None
    assert Starts(1, 4).explained(hang) == hang  # without the check nothing is known


def test_who_connects_in_another_way_than_the_others_is_told() -> None:
    hang = Hang("all_waiting", "all wait", group="0/init_process_group")
    known = starts(*ALL[:3], record(3, transport="gloo over dummy0"))
    found = known.explained(hang)
    assert found is not None
    assert found.text.endswith("; rank 3 connects by gloo over dummy0; ranks 0, 1, 2 connect by gloo")


def test_a_rank_that_has_left_is_told_where_others_wait_for_it() -> None:
    hang = Hang("hung", "rank 3 (a) has not entered all_reduce", (Culprit(3, "a", "n1", ""),), "default", 7)
    found = starts(*ALL[:3], record(3, phase=LEFT)).explained(hang)
    assert found is not None
    assert found.code == "hung"
    assert found.text.endswith("; rank 3 has destroyed the process groups that others wait in")
    assert starts(*ALL).explained(hang) == hang


def test_all_are_inside_and_it_comes_to_no_end() -> None:
    known = starts(*(record(rank, 8) for rank in range(4)), now=10.0)
    assert known.overdue(30.0, 39.0) is None
    assert known.overdue(None, 3900.0) is None
    assert known.overdue(30.0, 40.0, awake=11.0) is None
    found = known.overdue(30.0, 40.0)
    assert found is not None
    assert found.code == START_TIMEOUT
    assert found.text.endswith("; they asked for a world of 8")
    assert starts(*ALL[:3]).overdue(30.0, 60.0) is None
    assert starts(*ALL[:3], record(3, phase=CHECKED)).overdue(30.0, 60.0) is None


def test_a_rank_that_ends_in_its_start_is_told_with_its_phase_and_who_had_not_come() -> None:
    assert ended_in(record(0, phase=CHECKED), ALL, 4) == ""
    assert ended_in(record(0, phase=IMPORTING), ALL, 4) == ""
    assert ended_in(None, ALL, 4) == ""
    assert ended_in(record(0, phase=TRANSPORT, error="RuntimeError: refused"), [record(2, phase=TRANSPORT)], 3) == (
        "; in phase transport of its start (connects to its peers): RuntimeError: refused; phase importing (has not "
        "come to init_process_group): rank 1"
    )


def test_a_check_that_is_not_passed_ends_the_job_whatever_restarts_are_left() -> None:
    """Its exits are heard of as well, of another node it may be before."""
    fault = replace(record(0), fault="rank 0 differs")
    for first in ("exit", "fault"):
        driver = running(2, 2, restarts=5)
        if first == "exit":
            assert driver.fail(1).reason.code == "rank_failed"
        exits = (make_exit(0, 1),)
        driver.tell(0, RunPhase.FAILED, 1, exits=exits, starts=(replace(fault, generation=2),))
        assert driver.job.reason.code == "rank_failed"
        job = driver.tell(0, RunPhase.FAILED, 1, exits=exits, starts=(fault,))
        assert (job.phase, job.verdict, job.exit_code) == (Phase.ABORTING, Phase.FAILED, StartCheckError.exit_code)
        assert job.reason == Reason("start_check", "rank 0 differs")
        driver.everyone(RunPhase.STOPPED)
        assert driver.job.phase is Phase.FAILED


def test_a_refusal_of_another_generation_has_no_effect() -> None:
    driver = running(2, 2)
    assert driver.happen(StartRefused(2, "x")).phase is Phase.RUNNING
    assert driver.happen(StartRefused(1, "x")).verdict is Phase.FAILED


def test_an_operators_stop_is_not_taken_back_by_a_check() -> None:
    driver = running(2, 2)
    driver.tell(0, RunPhase.RUNNING, 1, stop_job=True, leaving_exit_code=130)
    assert driver.happen(StartRefused(1, "x")).exit_code == 130


def test_a_rank_that_fails_in_its_start_is_told_with_its_phase() -> None:
    driver = running(2, 2)
    starts = tuple(replace(record(rank, phase=TRANSPORT), error="RuntimeError: refused") for rank in (0, 1))
    job = driver.tell(0, RunPhase.FAILED, 1, exits=(make_exit(0, 1),), starts=starts)
    assert job.reason.code == "rank_failed"
    assert "in phase transport of its start (connects to its peers): RuntimeError: refused" in job.reason.text
    assert job.reason.text.endswith("phase importing (has not come to init_process_group): ranks 2, 3")


def test_who_left_before_another_failed_is_a_line_of_history() -> None:
    driver = running(2, 2)
    driver.tell(0, RunPhase.RUNNING, 1, starts=(record(0, phase=LEFT), record(1, phase=CHECKED)))
    driver.tell(0, RunPhase.RUNNING, 1, starts=driver.job.nodes["n0"].status.starts, exits=(make_exit(1, 0),))  # type: ignore[union-attr]
    before = driver.job
    after = driver.tell(1, RunPhase.FAILED, 1, exits=(make_exit(2, 1),), starts=(record(2, phase=CHECKED),))
    (line,) = [entry for entry in told(before, after) if entry.code == "rank_left_early"]
    assert line.text == (
        "rank 0 has destroyed its process groups, rank 1 has exited without destroying its process groups before "
        "rank 2 (h1) failed, which was still in its own"
    )
    assert "rank_left_early" not in [entry.code for entry in told(after, after)]
    inside = driver_with(record(2, phase=TRANSPORT))
    assert "rank_left_early" not in inside


def driver_with(failing: StartRecord) -> list[str]:
    """The codes of what is told when rank 2 fails, with rank 0 having left."""
    driver = running(2, 2)
    driver.tell(0, RunPhase.RUNNING, 1, starts=(record(0, phase=LEFT),))
    before = driver.job
    after = driver.tell(1, RunPhase.FAILED, 1, exits=(make_exit(2, 1),), starts=(failing,))
    return [entry.code for entry in told(before, after)]
