"""What the leader adds to a heartbeat from the one before."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.sightings import RankView, Sightings
from elaunch.progress import Heartbeat, RankProgress

RANK = RankProgress(0, 0, 4000, cpu_seconds=10.0)


def beat(*ranks: RankProgress, generation: int = 3, node: str = "n0") -> Heartbeat:
    return Heartbeat(node, generation, 0.25, ranks)


def only(sightings: Sightings) -> RankView:
    (found,) = sightings.views()
    return found


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    sightings = Sightings(3)
    assert sightings.heard(beat(RANK), "gpu-00", 100.0)
    assert not sightings.heard(beat(generation=2), "gpu-00", 101.0)
    assert not sightings.heard(beat(generation=4), "gpu-00", 101.0)
    assert only(sightings) == RankView(RANK, "gpu-00", "n0")


def test_the_age_of_a_state_grows_while_no_processor_is_used() -> None:
    sightings = Sightings(3)
    stopped = replace(RANK, state="T")
    for now in (100.0, 101.0, 103.0):
        sightings.heard(beat(stopped), "h", now)
    assert only(sightings).state_age == 3.0
    sightings.heard(beat(replace(stopped, cpu_seconds=10.5)), "h", 104.0)
    assert (only(sightings).state_age, only(sightings).cpu_share) == (0.0, 0.5)
    sightings.heard(beat(replace(stopped, cpu_seconds=10.5, state="R")), "h", 105.0)
    assert only(sightings).state_age == 0.0


def test_another_process_of_the_same_rank_starts_anew() -> None:
    sightings = Sightings(3)
    stopped = replace(RANK, state="T")
    sightings.heard(beat(stopped), "h", 100.0)
    sightings.heard(beat(replace(stopped, pid=1)), "h", 109.0)
    assert only(sightings) == RankView(replace(stopped, pid=1), "h", "n0")


def test_views_are_in_the_order_of_ranks_without_the_dead() -> None:
    sightings = Sightings(3)
    sightings.heard(beat(replace(RANK, rank=2), replace(RANK, rank=3, state="Z")), "h", 100.0)
    sightings.heard(beat(RANK, node="n1"), "h", 100.0)
    assert [view.rank for view in sightings.views()] == [0, 2]
    sightings.forget("n0")
    assert [view.rank for view in sightings.views()] == [0]
