"""Which rank holds its peers up, and what is only noise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_makers import group, view

from elaunch.controller.sightings import RankView
from elaunch.controller.straggler import Straggler, StragglerPolicy, Stragglers, without_each

Work = Callable[[int, int], float]  # seconds of its own that a rank needs for a step


class Training:
    """Synchronous training: a step ends for all when the slowest has done its work."""

    def __init__(self, ranks: int, steps: int, work: Work) -> None:
        self.ranks = ranks
        self.ends = [0.0]
        self.own = [[0.0] for _ in range(ranks)]
        for step in range(steps):
            seconds = [work(rank, step) for rank in range(ranks)]
            self.ends.append(self.ends[-1] + max(seconds) + 0.001)
            for rank in range(ranks):
                self.own[rank].append(self.own[rank][-1] + seconds[rank])

    def views(self, now: float, *, told: bool = True, section: str = "") -> list[RankView]:
        """What is known at ``now``: times are added up at the end of each step."""
        done = bisect_right(self.ends, now) - 1
        return [
            view(
                rank,
                group(done, done, size=self.ranks),
                step=done if told else -1,
                own_seconds=self.own[rank][done],
                waited_seconds=self.ends[done] - self.own[rank][done],
                section=section,
            )
            for rank in range(self.ranks)
        ]

    def watch(self, interval: float, *, told: bool = True, factor: float = 2.0) -> list[tuple[int, Straggler]]:
        """All news, each with the number of steps done when it came."""
        stragglers, found, now = Stragglers(StragglerPolicy(factor)), [], 0.0
        while now <= self.ends[-1]:
            for news in stragglers.observe(self.views(now, told=told)):
                found.append((bisect_right(self.ends, now) - 1, news))
            now += interval
        return found


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.data(), st.floats(0.05, 2.0), st.integers(0, 30))
def test_three_times_as_slow_is_told_within_twenty_steps_with_the_figure(
    ranks: int, data: st.DataObject, pace: float, since: int
) -> None:
    slow = data.draw(st.integers(0, ranks - 1))
    noise = Random(data.draw(st.integers(0, 9)))

    def work(rank: int, step: int) -> float:
        return pace * noise.uniform(0.95, 1.05) * (3 if rank == slow and step >= since else 1)

    (told,) = Training(ranks, since + 25, work).watch(0.25)
    step, news = told
    assert (news.rank, news.host, news.recovered) == (slow, f"gpu-{slow:02}", False)
    assert since < step <= since + 20
    assert 2.0 <= news.ratio < 3.4


def test_the_sentence_has_the_figures() -> None:
    ((_, news),) = Training(4, 30, lambda rank, step: 0.3 if rank == 2 else 0.1).watch(0.25)
    assert news.ratio == pytest.approx(3.0)
    assert news.text == (
        "rank 2 (gpu-02) is a straggler, 3.0 times as slow as its peers: "
        "300 ms of its own per step against 100 ms, the median of its peers"
    )


def test_without_steps_the_share_of_the_time_is_compared() -> None:
    found = Training(4, 60, lambda rank, step: 0.3 if rank == 2 else 0.1).watch(0.25, told=False)
    ((_, news),) = found
    assert news.ratio == pytest.approx(3.0, rel=0.05)
    assert "rank 2 (gpu-02) is a straggler, 3.0 times as slow as its peers: at work 100% of the time" in news.text


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.floats(0.0005, 1.0), st.integers(0, 99), st.booleans())
def test_ranks_that_differ_by_some_percent_are_no_news(ranks: int, pace: float, seed: int, told: bool) -> None:
    noise = Random(seed)
    training = Training(ranks, 60, lambda rank, step: pace * noise.uniform(0.7, 1.3))
    assert training.watch(0.25, told=told) == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 59), st.floats(0.2, 5.0))
def test_one_slow_step_is_no_straggler(when: int, pause: float) -> None:
    training = Training(4, 60, lambda rank, step: pause if (rank, step) == (1, when) else 0.02)
    assert training.watch(0.02) == []


@settings(max_examples=15, deadline=None)
@given(st.integers(5, 30), st.floats(1.0, 10.0), st.floats(1.0, 5.0), st.booleans(), st.integers(2, 5))
def test_a_rank_that_saves_alone_now_and_then_is_no_straggler(
    every: int, seconds: float, between: float, told: bool, ranks: int
) -> None:
    """Outside of a section, as it has none: the others wait for it each time."""
    pace = between / every
    training = Training(ranks, 120, lambda rank, step: pace + (seconds if rank == 0 and step % every == 0 else 0.0))
    assert training.watch(0.2, told=told) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 40), st.floats(2.0, 20.0), st.booleans())
def test_a_straggler_that_saves_too_is_told_all_the_same(every: int, seconds: float, told: bool) -> None:
    def work(rank: int, step: int) -> float:
        return (0.3 if rank == 2 else 0.1) + (seconds if rank == 0 and step % every == 0 else 0.0)

    found = Training(4, 60, work).watch(0.25, told=told)
    assert [(news.rank, news.recovered) for _, news in found] == [(2, False)]


def test_tiny_differences_of_tiny_steps_are_no_news() -> None:
    assert Training(4, 2000, lambda rank, step: 0.0001 if rank else 0.0008).watch(0.02) == []


def test_it_is_told_once_and_again_when_it_has_caught_up() -> None:
    training = Training(4, 120, lambda rank, step: 0.3 if rank == 2 and step < 40 else 0.1)
    (_, slow), (step, well) = training.watch(0.25)
    assert (slow.recovered, well.recovered) == (False, True)
    assert 40 < step <= 60
    assert well.text.startswith("rank 2 (gpu-02) is no straggler any more: 100 ms of its own per step")


def test_a_ratio_about_the_factor_is_not_told_again_and_again() -> None:
    training = Training(4, 400, lambda rank, step: 0.1 * (2.2 if step % 40 < 20 else 1.7) if rank == 2 else 0.1)
    assert len(training.watch(0.1)) == 1


def test_two_stragglers_are_both_named_the_slower_first() -> None:
    training = Training(8, 40, lambda rank, step: {1: 0.3, 6: 0.5}.get(rank, 0.1))
    first, second = (news for _, news in training.watch(2.0))
    assert (first.rank, second.rank) == (6, 1)


def test_time_in_sections_is_not_compared() -> None:
    training = Training(4, 60, lambda rank, step: 0.5 if rank == 0 else 0.1)
    stragglers = Stragglers()
    for tick in range(100):
        assert stragglers.observe(training.views(tick / 4, section="checkpoint")) == ()


def test_a_restarted_rank_begins_anew() -> None:
    stragglers = Stragglers()
    before, after = Training(2, 8, lambda rank, step: 1.0), Training(2, 30, lambda rank, step: 0.3 if rank else 0.1)
    for step in range(9):
        assert stragglers.observe(before.views(before.ends[step])) == ()
    told = {step: news for step in range(31) for news in stragglers.observe(after.views(after.ends[step]))}
    ((step, news),) = told.items()
    assert step <= 20
    assert (news.rank, news.ratio) == (1, pytest.approx(3.0))


def test_a_factor_of_nothing_turns_it_off() -> None:
    assert Training(4, 60, lambda rank, step: 0.9 if rank == 2 else 0.1).watch(0.25, factor=0) == []


def test_ranks_that_cannot_be_compared_are_no_news() -> None:
    stragglers = Stragglers()
    assert stragglers.observe([]) == ()
    for now in range(100):
        assert stragglers.observe([view(0, own_seconds=now, step=now)]) == ()
        assert stragglers.observe([view(0, attached=False), view(1, attached=False)]) == ()


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_the_median_of_all_others(rates: list[float]) -> None:
    expected = [median(rates[:i] + rates[i + 1 :]) for i in range(len(rates))]
    assert without_each(rates) == pytest.approx(expected)
