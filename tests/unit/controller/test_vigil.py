"""What the leader's watch makes of heartbeats: which it takes, when it judges, and what it tells once."""

from __future__ import annotations

from dataclasses import replace

from job_makers import Driver, running

from elaunch.controller.vigil import PACE, Judgement, Vigil
from elaunch.progress import Heartbeat, RankProgress


def at_step(rank: int, idle: float = 0.0, step: int = 20) -> RankProgress:
    return RankProgress(
        rank, rank, 40 + rank, "S", attached=True, step=step, step_age=idle, where_age=idle, progress_age=idle
    )


class Watched:
    """A running job of two nodes with two ranks each, and the watch over it."""

    def __init__(self, **policy: object) -> None:
        self.driver: Driver = running(2, 2, **policy)  # type: ignore[arg-type]
        self.vigil = Vigil(self.driver.policy, self.driver.now)
        self.vigil.follow(self.driver.job, self.driver.now)

    def hear(self, node: int, *ranks: RankProgress, generation: int = 1) -> bool:
        return self.vigil.hear(Heartbeat(f"n{node}", generation, 0.25, ranks), self.driver.now)

    def judge(self, after: float = PACE) -> Judgement | None:
        self.driver.now += after
        return self.vigil.judge(self.driver.now)


def test_a_heartbeat_of_another_generation_or_of_a_stranger_is_refused_and_counted() -> None:
    watched = Watched()
    assert watched.hear(0, at_step(0), at_step(1))
    assert not watched.hear(0, at_step(0), generation=2)
    assert not watched.hear(7, at_step(0))
    assert watched.vigil.stale == 2
    assert [view.rank for view in watched.vigil.views] == [0, 1]


def test_judging_has_a_pace_of_its_own() -> None:
    watched = Watched()
    assert watched.judge() is not None
    assert watched.judge(PACE / 2) is None
    assert watched.judge(PACE / 2) is not None


def test_ranks_that_owe_a_step_for_too_long_hang_unless_others_are_through() -> None:
    late = (at_step(0, 4.0), at_step(1, 4.0))
    for through in (False, True):
        watched = Watched(hang_timeout=3.0)
        watched.hear(1, at_step(2), at_step(3))
        watched.hear(0, *late)
        watched.hear(1, *(() if through else (at_step(2, 4.0), at_step(3, 4.0))))
        found = watched.judge()
        assert found is not None
        assert (found.hang is None) is through
        if found.hang is not None:
            assert (found.hang.code, [c.rank for c in found.hang.culprits]) == ("hung", [0, 1, 2, 3])


def test_nothing_is_called_a_hang_where_that_was_asked_for() -> None:
    watched = Watched(hang_timeout=float("inf"))
    watched.hear(0, at_step(0, 9e5), at_step(1, 9e5))
    found = watched.judge()
    assert found is not None
    assert found.hang is None


def test_a_silent_node_is_told_once_and_again_after_it_was_heard() -> None:
    watched = Watched()
    told: list[str] = []
    for tick in range(60):
        watched.hear(0, at_step(0))
        if tick < 4 or tick == 30:
            watched.hear(1, at_step(2))
        found = watched.judge()
        told += [silent.node_id for silent in found.silent] if found else []
    assert told == ["n1", "n1"]


def test_the_highest_step_is_kept_over_generations() -> None:
    watched = Watched()
    watched.hear(0, at_step(0, step=41), at_step(1, step=40))
    watched.hear(1, replace(at_step(2), step=-1))
    assert watched.vigil.step == 41


def test_what_waited_for_a_leader_that_did_not_run_is_not_held_against_a_rank() -> None:
    """Two heartbeats that were sent one after the other come in a minute apart, the second as the leader wakes."""
    for paused in (False, True):
        watched = Watched()
        stopped = replace(at_step(0), state="T")
        watched.hear(0, stopped, at_step(1))
        watched.hear(1, at_step(2), at_step(3))
        watched.judge()
        for _ in range(1 if paused else 60):
            watched.driver.now += 60.0 if paused else 1.0
            watched.hear(0, stopped, at_step(1))
            watched.hear(1, at_step(2), at_step(3))
        found = watched.judge()
        assert found is not None
        assert (found.hang is None) is paused
