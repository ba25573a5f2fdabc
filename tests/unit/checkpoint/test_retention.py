"""What retention may remove, as an invariant over all directories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elaunch.checkpoint.records.retention import Committed, Keep, newest_first, to_remove

_ALL = st.lists(
    st.builds(lambda claim, step: Committed(claim, step, f"{claim}.{step}"), st.integers(1, 4), st.integers(0, 40)),
    unique=True,
    max_size=12,
)


@given(_ALL, st.builds(Keep, st.integers(1, 4), st.integers(0, 10)), st.data())
def test_the_newest_good_ones_stay(committed: list[Committed], keep: Keep, data: st.DataObject) -> None:
    names = [one.name for one in committed]
    marked = frozenset(data.draw(st.sets(st.sampled_from(names)) if names else st.just(set())))
    protected = frozenset(data.draw(st.sets(st.sampled_from(names)) if names else st.just(set())))
    gone = to_remove(committed, keep, marked, protected)
    good = [one for one in newest_first(committed) if one.name not in marked]
    assert not set(gone) & set(good[: keep.last])
    assert not {one.name for one in gone} & protected
    assert not [one for one in gone if keep.every and one.step % keep.every == 0 and one.name not in marked]
    left = [one for one in good if one not in gone]
    assert all(
        one in good[: keep.last] or one.name in protected or (keep.every and one.step % keep.every == 0) for one in left
    )


def test_a_run_that_was_set_back_goes_on_from_its_own_steps() -> None:
    old, new = Committed(1, 300, "step-300"), Committed(2, 110, "step-110")
    assert newest_first([old, new]) == [new, old]


def test_a_damaged_one_does_not_take_the_place_of_a_good_one() -> None:
    committed = [Committed(1, step, str(step)) for step in (1, 2, 3, 4)]
    assert [one.step for one in to_remove(committed, Keep(2), frozenset({"4"}), frozenset())] == [1]
