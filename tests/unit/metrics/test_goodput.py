"""What a job's time goes into: whatever happens, the parts add up to the whole."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.metrics import goodput as use
from elaunch.rendezvous.memory import Accounts
from elaunch.rendezvous.records import decode, encode

ACTIVITIES = (*use.CAUSES, use.USEFUL, use.OVER)
seconds = st.floats(-5.0, 1e5, allow_nan=False)
steps = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(ACTIVITIES), seconds),
    st.tuples(st.just("book"), st.sampled_from(ACTIVITIES), st.sampled_from(use.CAUSES), seconds),
)


def played(moves: list[tuple[object, ...]]) -> tuple[Accounts, float]:
    wall = 1e9
    accounts = use.opened(wall)
    for move in moves:
        if move[0] == "move":
            wall += float(move[2])  # type: ignore[arg-type]
            accounts = use.moved(accounts, str(move[1]), wall)
        else:
            accounts = use.rebooked(accounts, str(move[1]), str(move[2]), float(move[3]), wall)  # type: ignore[arg-type]
    return accounts, wall


@given(st.lists(steps, max_size=40), st.floats(0.0, 1e5))
def test_the_parts_add_up_to_the_total(moves: list[tuple[object, ...]], later: float) -> None:
    accounts, wall = played(moves)
    at = max(wall, accounts.until) + later
    found = use.goodput(accounts, at)
    assert min(found.useful, *found.lost.values()) >= 0
    assert math.isclose(found.useful + sum(found.lost.values()), found.total, rel_tol=1e-9, abs_tol=1e-3)
    passed = (accounts.until if accounts.activity == use.OVER else at) - accounts.since
    assert math.isclose(found.total, passed, rel_tol=1e-9, abs_tol=1e-3)
    assert found.ratio is None or 0 <= found.ratio <= 1
    assert decode(Accounts, encode(accounts)) == accounts


def test_what_goes_on_counts_up_to_now() -> None:
    accounts = use.moved(use.opened(100.0), use.USEFUL, 110.0)
    found = use.goodput(accounts, 140.0)
    assert (found.total, found.useful, found.lost[use.WAITING]) == (40.0, 30.0, 10.0)


def test_lost_work_comes_out_of_what_was_taken_for_useful() -> None:
    accounts = use.moved(use.opened(100.0), use.USEFUL, 100.0)
    accounts = use.rebooked(accounts, use.USEFUL, use.LOST_WORK, 25.0, 160.0)
    found = use.goodput(accounts, 160.0)
    assert (found.useful, found.lost[use.LOST_WORK]) == (35.0, 25.0)
    assert use.goodput(use.rebooked(accounts, use.USEFUL, use.LOST_WORK, 1e6, 160.0), 160.0).useful == 0.0


def test_the_time_between_two_runs_does_not_count() -> None:
    accounts = use.moved(use.moved(use.opened(100.0), use.USEFUL, 100.0), use.OVER, 150.0)
    assert use.goodput(accounts, 1000.0).total == 50.0
    again = use.moved(accounts, use.WAITING, 1000.0)
    assert use.goodput(again, 1010.0) == use.Goodput(60.0, 50.0, {**dict.fromkeys(use.CAUSES, 0.0), use.WAITING: 10.0})


@pytest.mark.parametrize("bad", [b'{"since": -1}', b'{"seconds": {"useful": -3}}', b'{"until": 1e999}'])
def test_accounts_that_cannot_be_are_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match="Accounts"):
        decode(Accounts, bad)
