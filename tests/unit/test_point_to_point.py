"""Collectives are counted without the sends and receives among them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.worker.point_to_point import Numbers


@settings(deadline=None)
@given(kinds=st.lists(st.booleans(), max_size=60), data=st.data())
def test_collectives_are_counted_whatever_is_among_them(kinds: list[bool], data: st.DataObject) -> None:
    """``kinds``: of each number from 1 on, whether it is a collective's."""
    found, forgotten = Numbers(), 0
    for number, collective in enumerate(kinds, 1):
        if not collective:
            found.add(number, number)
        if data.draw(st.integers(0, 9)) == 0:
            forgotten = data.draw(st.integers(forgotten, number))
            found.forget(forgotten)
        for asked in range(forgotten, number + 1):
            assert found.collectives(asked) == sum(kinds[:asked])


def test_many_in_a_row_take_no_room() -> None:
    found = Numbers()
    for number in range(1, 100_000):
        found.add(number, number)
    assert len(found.runs) == 1
    assert found.collectives(100_005) == 6


def test_a_run_that_is_being_prolonged_is_not_forgotten_meanwhile() -> None:
    """By the rank's thread, between the look at the last run and its change: that would raise in the program's send."""
    found = Numbers()
    found.add(1, 3)
    found.forget(3)
    assert found.runs, "the program's thread may hold it"
    found.add(4, 4)
    found.add(6, 6)
    found.forget(5)
    assert found.runs == [[6, 6]]
    assert [found.collectives(number) for number in (5, 6, 7)] == [1, 1, 2]
