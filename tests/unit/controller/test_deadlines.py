"""What a job's own pace says about how long it may stand still."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import asdict, dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.controller.blame import Hang
from elaunch.controller.deadlines import SECTIONS_KEPT, Deadlines
from elaunch.controller.gaps import KEPT, Gap, longest
from elaunch.controller.hang import diagnose
from elaunch.controller.patience import Patience
from elaunch.controller.sightings import Sightings
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.rendezvous.memory import Learnt

HOUR = 3600.0


@dataclass(frozen=True)
class Segment:
    """From ``at`` on the rank is like this until the next segment."""

    at: float
    step: int
    started: int
    finished: int
    section: str = ""
    stepped: float = 0.0


class Job:
    """Two ranks that do ``pace`` seconds of work and a collective per step; what rank 0 does besides, rank 1 waits for.

    ``extra`` are seconds by step that rank 0 needs more, in a section of that name or, with "", outside of any.
    """

    def __init__(self, pace: float, extra: dict[int, tuple[float, str]], steps: int, *, told: bool = True) -> None:
        self.ends = 0.0
        self.lanes: list[list[Segment]] = [[Segment(0.0, -1, 0, 0)], [Segment(0.0, -1, 0, 0)]]
        for number in range(steps):
            seconds, section = extra.get(number, (0.0, ""))
            begin, ready = self.ends, self.ends + pace
            step = number if told else -1
            slow, quick = self.lanes
            slow.append(Segment(begin, step, number, number, section, begin))
            slow.append(Segment(begin + seconds, step, number, number, "", begin))
            quick.append(Segment(begin, step, number, number, "", begin))
            quick.append(Segment(ready, step, number + 1, number, "", begin))
            self.ends = ready + seconds
        for lane in self.lanes:
            last = lane[-1]
            lane.append(replace(last, at=self.ends, started=steps, finished=steps))

    def beat(self, now: float, generation: int = 1) -> Heartbeat:
        ranks = tuple(self._rank(rank, lane, now) for rank, lane in enumerate(self.lanes))
        return Heartbeat("n0", generation, 0.25, ranks)

    def _rank(self, rank: int, lane: list[Segment], now: float) -> RankProgress:
        here = lane[bisect_right([s.at for s in lane], now) - 1]
        group = GroupProgress("default", 2, here.started, here.finished, "all_reduce float32[4]")
        return RankProgress(
            rank,
            rank,
            40 + rank,
            state="S",
            attached=True,
            step=here.step,
            step_age=now - here.stepped,
            section=here.section,
            where=f"train.py:{rank} in step",
            where_age=now - here.at,
            progress_age=now - here.at,
            groups=(group,),
        )


def watch(job: Job, deadlines: Deadlines, until: float, interval: float) -> tuple[float, Hang] | None:
    """The first verdict on ``job``, looking once per ``interval``, with the leader's clock 500 s ahead."""
    sightings = Sightings(1)
    deadlines.begin()
    now = 0.0
    while now < until:
        beat = job.beat(now)
        sightings.heard(beat, "gpu-00", now + 500)
        deadlines.observe(beat, now + 500)
        if found := diagnose(sightings.views(), deadlines.limits()):
            return now, found
        now += interval
    return None


def at_pace(deadlines: Deadlines, times: list[float]) -> Deadlines:
    """A rank's step changed at each of ``times``, and was seen at once."""
    for step, now in enumerate(times):
        deadlines.observe(Heartbeat("n0", 1, 0.25, (RankProgress(0, 0, 40, attached=True, step=step),)), now)
    return deadlines


def paces(*lengths: float) -> list[float]:
    """Times with these pauses between them, after six steps of 1 s as the start."""
    times = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for length in lengths:
        times.append(times[-1] + length)
    return times


# --- honest slowness ----------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.floats(0.2, 20), st.booleans(), st.sampled_from([0.25, 5.0]))
def test_a_first_step_of_twenty_times_and_sections_of_fifty_times_are_no_hang(
    pace: float, told: bool, interval: float
) -> None:
    extra = {0: (20 * pace, ""), 8: (50 * pace, "checkpoint"), 14: (50 * pace, "checkpoint"), 17: (20 * pace, "")}
    if not told:
        extra[17] = (10 * pace if pace < 5 else 0.0, "")
    job = Job(pace, extra, 20, told=told)
    assert watch(job, Deadlines(Patience()), job.ends, max(interval, job.ends / 400)) is None


@settings(max_examples=30, deadline=None)
@given(st.floats(0.02, 0.15))
def test_the_same_holds_with_a_short_floor(pace: float) -> None:
    job = Job(pace, {0: (20 * pace, ""), 8: (50 * pace, "checkpoint"), 14: (20 * pace, "")}, 20)
    assert watch(job, Deadlines(Patience(floor=2.0)), job.ends, 0.1) is None


@settings(max_examples=30, deadline=None)
@given(st.floats(0.2, 2.0), st.integers(7, 30))
def test_a_rank_that_stops_for_good_is_found_soon_after_the_floor(pace: float, step: int) -> None:
    job = Job(pace, {step: (HOUR, "")}, step + 2)
    stopped = next(s.at for s in job.lanes[0] if s.step == step)
    found = watch(job, Deadlines(Patience()), stopped + 120, 0.5)
    assert found is not None
    when, hang = found
    assert (hang.code, [c.rank for c in hang.culprits]) == ("hung", [0])
    assert stopped + 60 <= when <= stopped + 60 + pace + 1


def test_a_rank_that_never_starts_is_found_after_the_longer_deadline_of_a_start() -> None:
    job = Job(1.0, {0: (HOUR, "")}, 2)
    found = watch(job, Deadlines(Patience()), 700, 1.0)
    assert found is not None
    assert 600 <= found[0] <= 603


def test_without_steps_a_start_is_over_after_many_collectives_and_some_time() -> None:
    job = Job(1.0, {400: (HOUR, "")}, 402, told=False)
    found = watch(job, Deadlines(Patience()), 600, 1.0)
    assert found is not None
    assert 460 <= found[0] <= 463


def test_without_steps_many_quick_collectives_are_not_yet_a_start() -> None:
    job = Job(0.1, {200: (500.0, "")}, 202, told=False)
    assert watch(job, Deadlines(Patience()), job.ends, 1.0) is None


def test_a_later_step_may_compile_as_well() -> None:
    job = Job(2.0, {0: (500.0, ""), 4: (500.0, "")}, 6)
    assert watch(job, Deadlines(Patience()), job.ends, 0.5) is None


def test_a_new_leader_that_has_seen_nothing_is_patient() -> None:
    deadlines = Deadlines(Patience())
    late = Heartbeat("n0", 7, 0.25, (RankProgress(0, 0, 40, attached=True, step=500, progress_age=200.0),))
    deadlines.observe(late, 1000.0)
    assert not deadlines.warm
    assert deadlines.limits().hang == 600.0


# --- what is learnt -----------------------------------------------------------------------------------------------


def test_a_pause_that_came_twice_counts_threefold_one_that_came_once_less() -> None:
    once = at_pace(Deadlines(Patience()), paces(100.0, 1.0))
    assert once.limits().hang == 150.0
    twice = at_pace(Deadlines(Patience()), paces(100.0, 1.0, 90.0))
    assert twice.limits().hang == 270.0


def test_the_pauses_of_the_start_are_not_ordinary_ones() -> None:
    deadlines = at_pace(Deadlines(Patience()), [0.0, *(300.0 + n for n in range(6))])
    assert deadlines.warm
    assert deadlines.limits().hang == 60.0
    deadlines.begin()
    assert deadlines.limits().hang == 900.0


def test_long_steps_make_a_long_deadline() -> None:
    times = [100.0 * n for n in range(20)]
    assert at_pace(Deadlines(Patience()), times).limits().hang == 600.0
    times = [1000.0 * n for n in range(20)]
    assert at_pace(Deadlines(Patience()), times).limits().hang == 5000.0


def test_what_was_learnt_goes_to_the_next_generation_and_to_another_leader() -> None:
    deadlines = at_pace(Deadlines(Patience()), paces(100.0, 1.0, 90.0))
    learnt = Learnt(**json.loads(json.dumps(asdict(deadlines.learnt))))
    assert learnt == Learnt(step=1.0, longest=100.0, second=90.0, first=1.0)
    for successor in (Deadlines(Patience(), learnt), deadlines):
        successor.begin()
        assert not successor.warm
        assert successor.limits().hang == 600.0
        assert at_pace(successor, paces()).limits().hang == 270.0


def test_a_rank_that_was_stopped_is_no_measure() -> None:
    deadlines = at_pace(Deadlines(Patience()), paces())
    stopped = RankProgress(0, 0, 40, state="T", attached=True, step=6, step_age=100.0, progress_age=100.0)
    deadlines.observe(Heartbeat("n0", 1, 0.25, (stopped,)), 106.0)
    moved = replace(stopped, state="S", step=7, step_age=0.0, progress_age=0.0)
    deadlines.observe(Heartbeat("n0", 1, 0.25, (moved,)), 206.0)
    assert deadlines.limits().hang == 60.0


def test_a_section_is_known_by_its_name_and_is_no_pause_of_those_who_wait() -> None:
    job = Job(1.0, {8: (2000.0, "evaluate")}, 12)
    deadlines = Deadlines(Patience())
    for tick in range(int(job.ends) + 1):
        deadlines.observe(job.beat(tick), float(tick))
    limits = deadlines.limits()
    assert limits.hang == 60.0
    assert limits.section == 600.0
    assert limits.sections == {"evaluate": pytest.approx(6000.0, rel=0.01)}


def test_names_of_sections_that_are_made_up_for_each_step_are_not_kept_for_ever() -> None:
    deadlines = Deadlines(Patience())
    for number in range(3 * SECTIONS_KEPT):
        rank = RankProgress(0, 0, 40, attached=True, step=number, section=f"evaluate {number}")
        deadlines.observe(Heartbeat("n0", 1, 0.25, (rank,)), float(number))
    assert len(deadlines.limits().sections) == SECTIONS_KEPT
    assert "evaluate 0" in deadlines.limits().sections, "those that were there first are likelier to come again"


# --- the options --------------------------------------------------------------------------------------------------


def test_the_options() -> None:
    assert Patience.parse("auto", 5.0) == Patience(None, 5.0)
    assert Deadlines(Patience.parse("off")).limits().hang is None
    assert Deadlines(Patience.parse("30")).limits().hang == 30.0
    for text, floor in [("never", 60.0), ("0", 60.0), ("-3", 60.0), ("nan", 60.0), ("inf", 60.0), ("auto", 0.0)]:
        with pytest.raises(ValueError, match=r"hang|convert"):
            Patience.parse(text, floor)


@given(st.lists(st.floats(0.01, 5000), max_size=60), st.floats(1, 100))
def test_a_deadline_is_never_under_the_floor_nor_under_what_the_job_came_through(
    lengths: list[float], floor: float
) -> None:
    deadlines = at_pace(Deadlines(Patience(floor=floor)), paces(*lengths))
    hang = deadlines.limits().hang
    assert hang is not None
    assert hang >= floor
    assert all(hang > length for length in lengths)
    assert deadlines.limits().section >= 10 * floor


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=30))
def test_the_longest_pauses_are_kept_and_do_not_overlap(spans: list[tuple[float, float]]) -> None:
    kept: tuple[Gap, ...] = ()
    for start, length in spans:
        kept = longest(kept, Gap(start, start + length))
    assert len(kept) <= KEPT
    assert list(kept) == sorted(kept, key=lambda gap: -gap.length)
    assert not any(a.overlaps(b) for i, a in enumerate(kept) for b in kept[:i])
    if spans:
        assert kept[0].length == max(Gap(s, s + n).length for s, n in spans)


def test_one_pause_that_many_ranks_saw_counts_once() -> None:
    kept: tuple[Gap, ...] = ()
    for rank in range(8):
        kept = longest(kept, Gap(100.0 + rank / 100, 200.0 - rank / 100))
    assert kept == (Gap(100.0, 200.0),)
