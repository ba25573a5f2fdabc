"""Which nodes are silent, and what never looks like silence."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from elaunch.controller.liveness import LEAST_SILENCE, LONGEST, MESSAGES, RECONNECT, Liveness, interval_for

START = 1000.0


def watching(nodes: Iterable[str], now: float = START) -> Liveness:
    liveness = Liveness(now)
    for node in nodes:
        liveness.expect(node, f"host-{node}", now)
    return liveness


def wait(
    liveness: Liveness, start: float, seconds: float, beating: Iterable[str] = (), interval: float = 0.25
) -> float:
    """The leader looks twice a second, and ``beating`` are heard of each time; the time at the end."""
    for tick in range(1, int(seconds * 2) + 1):
        for node in beating:
            liveness.heard(node, start + tick / 2, interval)
        liveness.silent(start + tick / 2)
    return start + int(seconds * 2) / 2


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_the_interval_grows_with_the_nodes_so_that_messages_do_not(one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert interval_for(few) <= interval_for(many) <= LONGEST
    if many <= 4000:
        assert many / interval_for(many) <= MESSAGES * 1.001


def test_a_few_nodes_are_heard_of_four_times_a_second_and_four_thousand_every_five_seconds() -> None:
    assert interval_for(2) == 0.25
    assert interval_for(4000) == 5.0


def test_the_node_that_sends_nothing_is_named_with_its_age() -> None:
    liveness = watching("abc")
    for node in "abc":
        liveness.heard(node, START, 0.25)
    now = wait(liveness, START, 10, beating="ac")
    (silent,) = liveness.silent(now)
    assert (silent.node_id, silent.host, silent.age) == ("b", "host-b", 10.0)
    assert silent.text == "node host-b (b) has sent no heartbeat for 10.0 s; one was due every 0.25 s"


def test_a_node_that_is_heard_of_again_is_not_silent() -> None:
    liveness = watching("a")
    liveness.heard("a", START, 0.25)
    now = wait(liveness, START, 10)
    assert liveness.silent(now)
    liveness.heard("a", now, 0.25)
    assert liveness.silent(now + 1) == ()


def test_a_long_interval_gives_more_time() -> None:
    liveness = watching("a")
    liveness.heard("a", START, 5.0)
    assert liveness.silent(wait(liveness, START, 19)) == ()
    assert liveness.silent(wait(liveness, START + 19, 2))


def test_a_node_cannot_ask_for_more_patience_than_there_is() -> None:
    liveness = watching("a")
    liveness.heard("a", START, 1e9)
    assert liveness.silent(wait(liveness, START, 21))


def test_a_forgotten_node_is_never_silent_and_an_unknown_one_is_not_taken_in() -> None:
    liveness = watching("a")
    liveness.forget("a")
    assert not liveness.heard("a", START, 0.25)
    assert liveness.silent(wait(liveness, START, 100)) == ()
    assert liveness.age("a", START + 100) == 0


@given(st.integers(1, 200), st.floats(0, RECONNECT - 0.5))
def test_a_new_leader_calls_nobody_silent_before_they_had_time_to_find_it(nodes: int, seconds: float) -> None:
    liveness = watching(map(str, range(nodes)))
    assert liveness.silent(wait(liveness, START, seconds)) == ()


def test_a_node_that_never_finds_the_new_leader_is_silent_in_the_end() -> None:
    liveness = watching("ab")
    now = wait(liveness, START, RECONNECT + 1, beating="b")
    (silent,) = liveness.silent(now)
    assert silent.text == "node host-a (a) has sent no heartbeat to this leader for 16.0 s"


def test_a_node_that_is_expected_anew_keeps_its_age() -> None:
    liveness = watching("a")
    liveness.heard("a", START, 0.25)
    now = wait(liveness, START, 10)
    liveness.expect("a", "host-a", now)
    assert liveness.age("a", now) == 10.0


@given(st.floats(3, 1e6), st.floats(0, LEAST_SILENCE - 1))
def test_the_time_in_which_the_leader_was_stopped_is_nobodys_silence(stopped: float, after: float) -> None:
    liveness = watching("abc")
    for node in "abc":
        liveness.heard(node, START, 0.25)
    woken = START + stopped
    assert liveness.silent(woken) == ()
    assert liveness.silent(wait(liveness, woken, after)) == ()
    assert len(liveness.silent(wait(liveness, woken, LEAST_SILENCE + 1))) == 3


def test_the_longest_silence_comes_first() -> None:
    liveness = watching("ab")
    liveness.heard("b", START, 0.25)
    now = wait(liveness, START, 5, beating="a")
    assert [s.node_id for s in liveness.silent(wait(liveness, now, 5))] == ["b", "a"]
