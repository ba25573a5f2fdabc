"""When a job's time changes hands: the phases of a recovery, from states and what is seen of the ranks."""

from __future__ import annotations

import math
from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.controller.policy import Policy
from elaunch.controller.timekeeping import Seen, timed, working
from elaunch.metrics import goodput as use
from elaunch.rendezvous.memory import History
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Checkpoint, Phase, Reason

WALL = 1e9
HANG = Reason("hang", "rank 3 does not come")


def plan(generation: int) -> Plan:
    return Plan(generation, 0, HANG, (), 4, "n0", "h0", 1)


class Course:
    """A job whose states follow one another, with the time kept."""

    def __init__(self, **values: object) -> None:
        self.wall = WALL
        self.job = Job(Policy(1, 1, 3), wall_offset=WALL)
        self.job = replace(self.job, **values)  # type: ignore[arg-type]
        self.spans: list[tuple[str, float]] = []
        self.worked: list[str] = []

    def to(self, seconds: float, seen: Seen | None = None, unseen: float = 0.0, **values: object) -> None:
        """After ``seconds`` the job has these values."""
        self.wall += seconds
        before, self.job = self.job, replace(self.job, **values)  # type: ignore[arg-type]
        found = timed(before, self.job, seen or Seen(), self.wall, unseen)
        self.job = replace(self.job, accounts=found.accounts)
        self.spans += found.spans
        if found.working:
            self.worked.append(working(self.job, dict(self.spans)).text)

    def begin(self, generation: int, start: float = 3.0) -> None:
        """Planned, committed after 0.25 s, up after ``start``."""
        self.to(0.0, phase=Phase.STARTING, generation=generation, uncommitted=True, plan=plan(generation))
        self.to(0.25, uncommitted=False)
        self.to(start, phase=Phase.RUNNING, ran_since=self.wall + start - WALL)

    def seconds(self) -> dict[str, float]:
        found = use.by_activity(self.job.accounts, self.wall)
        return {name: round(value, 3) for name, value in found.items() if value}


def test_a_recovery_is_told_phase_by_phase() -> None:
    one = Course(history=History(step=5))
    one.to(0.0)
    one.to(10.0)
    one.begin(1)
    one.to(1.0, Seen(up=one.wall + 1.0))
    one.to(2.0, Seen(step=0, stepped=one.wall + 1.5))
    one.to(100.0, Seen(step=0, stepped=one.wall - 0.5))
    assert one.seconds() == {"waiting": 10.0, "rendezvous": 0.25, "start": 4.0, "first_step": 1.5, "useful": 100.5}
    one.spans.clear()

    one.to(0.5, unseen=60.0, phase=Phase.ABORTING, reason=HANG)
    one.to(4.0, phase=Phase.STARTING, generation=2, uncommitted=True, plan=plan(2))
    one.to(0.25, uncommitted=False)
    one.to(2.0, phase=Phase.RUNNING, ran_since=one.wall + 2.0 - WALL)
    one.to(5.0, Seen(restoring=True))
    one.to(6.0, Seen(restoring=False))
    one.to(1.0, Seen(step=90, stepped=one.wall + 0.5))
    assert one.spans == [
        ("detection", 60.0), ("abort", 4.0), ("rendezvous", 0.25), ("start", 7.0), ("restore", 6.0), ("first_step", 0.5)
    ]  # fmt: skip
    assert one.worked[-1] == (
        "generation 2 is at work at step 90, after 77.8 s: detection 60.0 s, abort 4.0 s, rendezvous 0.2 s,"
        " start 7.0 s, restore 6.0 s, first step 0.5 s"
    )
    assert one.job.accounts.restarts == {"hang": 1}


def test_work_that_is_in_no_checkpoint_is_lost_with_its_generation() -> None:
    one = Course()
    one.begin(1)
    one.to(0.0, Seen(step=0, stepped=one.wall))
    saved = Checkpoint(40, "/ckpt", 1, 0, "d", seconds=2.0, time=one.wall + 50.0)
    one.to(100.0, Seen(step=0, stepped=one.wall), checkpoint=saved)
    one.to(0.0, unseen=10.0, phase=Phase.ABORTING, reason=HANG)
    one.to(1.0, phase=Phase.STARTING, generation=2, uncommitted=True, plan=plan(2))
    assert one.seconds()["lost_work"] == 42.0  # from the begin of the save at 48 s to the hang at 90 s
    assert one.seconds()["useful"] == 48.0


def test_a_checkpoint_that_is_committed_while_the_ranks_are_stopped_counts() -> None:
    one = Course()
    one.begin(1)
    one.to(0.0, Seen(step=0, stepped=one.wall))
    one.to(100.0, phase=Phase.ABORTING, reason=HANG)
    one.to(3.0, checkpoint=Checkpoint(9, "/ckpt", 1, 0, "d", seconds=1.0, time=one.wall + 3.0))
    one.to(1.0, phase=Phase.WAITING)
    assert "lost_work" not in one.seconds()


def test_without_checkpoints_nothing_is_known_to_be_lost() -> None:
    one = Course()
    one.begin(1)
    one.to(0.0, Seen(step=0, stepped=one.wall))
    one.to(100.0, phase=Phase.ABORTING, reason=HANG)
    one.to(1.0, phase=Phase.STARTING, generation=2, uncommitted=True, plan=plan(2))
    assert one.seconds()["useful"] == 100.0


def test_a_program_that_tells_no_steps_is_at_work_once_it_has_its_process_group() -> None:
    one = Course()
    one.begin(1)
    one.to(5.0, Seen(up=one.wall + 2.0))
    one.to(10.0, Seen(up=one.wall - 3.0))
    assert (one.seconds()["start"], one.seconds()["useful"]) == (5.0, 13.0)
    assert one.worked == ["generation 1 is at work, after 5.2 s: rendezvous 0.2 s, start 5.0 s"]


def test_a_first_step_that_comes_late_was_not_work_before() -> None:
    one = Course()
    one.begin(1)
    one.to(1.0, Seen(up=one.wall))
    one.to(20.0, Seen(up=one.wall - 1.0, step=0, stepped=one.wall + 19.0))
    assert one.seconds()["first_step"] == 20.0
    assert one.seconds()["useful"] == 1.0
    assert len(one.worked) == 1


def test_ranks_that_tell_nothing_are_at_work_after_a_while() -> None:
    one = Course()
    one.begin(1)
    one.to(5.0, Seen(patience=math.inf))
    one.to(6.0)
    one.to(10.0)
    assert (one.seconds()["start"], one.seconds()["useful"]) == (14.0, 10.0)


def test_a_success_costs_nothing() -> None:
    one = Course()
    one.begin(1)
    one.to(0.0, Seen(step=0, stepped=one.wall))
    one.to(50.0, unseen=5.0, phase=Phase.SUCCEEDED)
    one.to(50.0)
    assert one.seconds() == {"rendezvous": 0.25, "start": 3.0, "useful": 50.0}


def test_the_next_leader_goes_on_with_the_accounts() -> None:
    one = Course()
    one.begin(1)
    one.to(0.0, Seen(step=7, stepped=one.wall))
    one.to(30.0, Seen())  # it has heard of no rank yet
    assert one.seconds()["useful"] == 30.0
    assert len(one.worked) == 1


def test_what_is_booked_to_a_cause_never_falls() -> None:
    """Whether what is seen late dates the change back, or the next leader's clock is behind."""
    one, booked = Course(), dict[str, float]()

    def goes_on(seconds: float, seen: Seen | None = None, **values: object) -> None:
        one.to(seconds, seen, **values)
        now = dict(one.job.accounts.seconds)
        assert [cause for cause in use.CAUSES if now.get(cause, 0.0) < booked.get(cause, 0.0)] == []
        booked.update(now)

    goes_on(0.0)
    goes_on(61.0)
    assert booked == {use.WAITING: 61.0}  # while it goes on
    one.begin(1)
    goes_on(90.0, Seen(patience=math.inf))
    assert booked[use.START] > 90
    goes_on(1.0, Seen(up=one.wall - 40.0))  # it had come long ago
    goes_on(-30.0, Seen(), phase=Phase.ABORTING)
    goes_on(5.0, Seen(), phase=Phase.WAITING)
    goes_on(120.0, Seen())
    assert booked[use.WAITING] > 61 + 60
