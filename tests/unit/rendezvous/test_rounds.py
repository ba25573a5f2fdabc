"""When a round of torchrun agents is formed, of whom and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.rendezvous.rounds import Limits, Participant, Verdict, View, decide, make_plan, news
from elaunch.rendezvous.seating import order

LIMITS = Limits(2, 3, 30.0)


def node(name: str, joined: int, after: int = 0) -> Participant:
    return Participant(name, "host", "10.0.0.1", 1, 4000 + joined, "", joined=joined, after=after)


def view(*nodes: Participant, ran: tuple[Participant, ...] = (), closed: int = 0) -> View:
    """``ran`` are the members of generation 1."""
    seen = View(100, {n.node_id: n for n in nodes}, None, closed)
    return replace(seen, plan=make_plan(seen, Verdict(ran, decide(seen, LIMITS, 0).reason))) if ran else seen


A, B, C, D = node("a", 1), node("b", 2), node("c", 3), node("d", 4)


def free(participant: Participant) -> Participant:
    return replace(participant, after=1)


def names(verdict: Verdict) -> str:
    return "".join(n.node_id for n in verdict.nodes)


@pytest.mark.parametrize(
    ("seen", "waited", "formed", "code"),
    [
        (view(A), 99.0, "", "too_few"),
        (view(A, B), 1.0, "", "last_call"),
        (view(A, B), 30.0, "ab", "start"),
        (view(C, B, A), 0.0, "abc", "start"),
        (view(A, B, C, D), 0.0, "abc", "start"),
        (view(free(A), B, C, ran=(A, B)), 99.0, "", "busy"),
        (view(free(A), free(B), ran=(B, A)), 0.0, "ba", "restart"),
        (view(free(A), free(B), C, ran=(B, A)), 0.0, "bac", "membership"),
        (view(free(A), free(C), D, ran=(A, B, C)), 0.0, "adc", "membership"),
        (view(free(A), ran=(A, B)), 99.0, "", "too_few"),
        (view(C, D, ran=(A, B)), 0.0, "", "last_call"),
        (view(C, D, ran=(A, B)), 30.0, "cd", "start"),
        (view(free(A), C, D, ran=(A, B), closed=2), 99.0, "", "closing"),
        (view(C, D, ran=(A, B), closed=2), 30.0, "cd", "start"),
    ],
)
def test_decide(seen: View, waited: float, formed: str, code: str) -> None:
    verdict = decide(seen, LIMITS, waited)
    assert (names(verdict), verdict.reason.code) == (formed, code)


def test_the_last_call_says_when_to_ask_again() -> None:
    assert decide(view(A, B), LIMITS, 12.0).wait == 18.0
    assert decide(view(A), LIMITS, 0.0).wait is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view(A, B, ran=(A, B)), 0),
        (view(A, B, C, ran=(A, B)), 1),
        (view(A, B, C, D, ran=(A, B)), 1),
        (view(A, B, C, D, ran=(A, B, C)), 0),
        (view(A, free(B), ran=(A, B)), 1),
        (view(A, ran=(A, B)), 1),
        (view(A, D, ran=(A, B, C)), 3),
        (view(free(A), B, C, ran=(A, B)), 0),
        (view(B, ran=(A, B)), 1),
        (view(A, ran=(A, B), closed=50), 0),
        (view(A), 0),
    ],
)
def test_news_for_a(seen: View, expected: int) -> None:
    assert news(seen, "a", LIMITS) == expected


ids = st.integers(1, 9)


@given(st.lists(ids, unique=True), st.lists(ids, unique=True), st.integers(1, 9))
def test_survivors_keep_their_order_and_come_first(previous: list[int], present: list[int], limit: int) -> None:
    def made(number: int) -> Participant:
        return node(f"n{number}", number)

    members = (
        make_plan(view(), Verdict(tuple(map(made, previous)), decide(view(), LIMITS, 0).reason)).members
        if (previous)
        else ()
    )
    placed = [int(n.node_id[1:]) for n in order(map(made, present), members, limit)]
    assert len(placed) == len(set(placed)) == min(limit, len(present))
    survivors = [number for number in previous if number in present]
    assert [number for number in placed if number in survivors] == survivors[:limit]
    newcomers = [number for number in placed if number not in survivors]
    assert newcomers == sorted(set(present) - set(survivors))[: len(newcomers)]
    if len(placed) == len(previous):
        assert all(placed[previous.index(number)] == number for number in survivors)
