"""Who takes a lost node's place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elaunch.rendezvous.plan import Member
from elaunch.rendezvous.records import Node
from elaunch.rendezvous.seating import order


def node(name: str, joined: int, *, host: str = "", slots: int = 2, role: str = "default", rank: int = -1) -> Node:
    return Node(name, host or f"host-{name}", "10.0.0.1", slots, 1, "", role=role, node_rank=rank, joined=joined)


def members(*nodes: Node) -> tuple[Member, ...]:
    rank0 = 0
    found = []
    for place, one in enumerate(nodes):
        found.append(Member(one.node_id, one.host, one.slots, place, rank0, one.role, rank0, 0))
        rank0 += one.slots
    return tuple(found)


def names(nodes: list[Node]) -> list[str]:
    return [one.node_id for one in nodes]


A, B, C = (node(name, joined) for joined, name in enumerate("abc", 1))
BEFORE = members(A, B, C)


def test_a_spare_takes_the_place_of_the_lost_and_the_others_keep_theirs() -> None:
    assert names(order([A, C, node("spare", 4)], BEFORE, 3)) == ["a", "spare", "c"]


def test_the_spare_that_has_waited_longest_is_next() -> None:
    assert names(order([A, C, node("late", 5), node("early", 4)], BEFORE, 3)) == ["a", "early", "c"]


def test_a_node_that_is_back_is_preferred_to_an_earlier_spare() -> None:
    back = node("b2", 9, host="host-b")
    assert names(order([A, C, node("spare", 4), back], BEFORE, 3)) == ["a", "b2", "c"]


def test_nodes_that_are_back_get_their_own_places_whoever_was_first() -> None:
    back = [node("c2", 8, host="host-c"), node("a2", 9, host="host-a")]
    assert names(order([*back, B], BEFORE, 3)) == ["a2", "b", "c2"]


def test_one_node_that_is_back_does_not_take_anothers_place() -> None:
    assert names(order([A, node("spare", 4), node("c2", 9, host="host-c")], BEFORE, 3)) == ["a", "spare", "c2"]


def test_a_spare_with_as_many_ranks_is_preferred() -> None:
    odd, even = node("odd", 4, slots=3), node("even", 5)
    assert names(order([A, C, odd, even], BEFORE, 3)) == ["a", "even", "c"]
    assert names(order([A, C, odd], BEFORE, 3)) == ["a", "odd", "c"]


def test_a_node_that_is_back_with_other_ranks_or_another_role_is_a_spare_like_any_other() -> None:
    spare = node("spare", 4)
    assert names(order([A, C, spare, node("b2", 9, host="host-b", slots=8)], BEFORE, 3)) == ["a", "spare", "c"]
    assert names(order([A, C, spare, node("b2", 9, host="host-b", role="reader")], BEFORE, 3)) == ["a", "spare", "c"]


def test_with_fewer_nodes_than_before_the_place_of_who_is_back_is_kept() -> None:
    assert names(order([B, node("c2", 9, host="host-c")], BEFORE, 3)) == ["b", "c2"]


def test_asked_for_ranks_come_first() -> None:
    back = node("b2", 9, host="host-b")
    assert names(order([A, C, node("asked", 4, rank=1), back], BEFORE, 3)) == ["asked", "a", "c"]


some = st.lists(
    st.builds(
        node,
        st.sampled_from("abcdefghijkl"),
        st.integers(1, 20),
        host=st.sampled_from(["h0", "h1", "h2"]),
        slots=st.integers(1, 2),
        role=st.sampled_from(["default", "reader"]),
        rank=st.sampled_from([-1, -1, -1, 0, 1]),
    ),
    unique_by=lambda one: one.node_id,
    max_size=10,
)


@given(some, some, st.integers(0, 8), st.randoms())
def test_whoever_comes_all_seats_are_used_and_survivors_keep_theirs(
    before: list[Node], here: list[Node], limit: int, random: object
) -> None:
    placed = order(here, members(*before), limit)
    assert len({one.node_id for one in placed}) == len(placed) == min(limit, len(here))
    shuffled = list(here)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert order(shuffled, members(*before), limit) == placed
    here_names = set(names(here))
    survivors = [name for name in names(before) if name in here_names][:limit]
    assert set(survivors) <= set(names(placed))
    if all(one.node_rank < 0 for one in here):
        assert [name for name in names(placed) if name in survivors] == survivors
        if len(placed) >= len(before):
            assert all(names(placed)[names(before).index(name)] == name for name in survivors)
