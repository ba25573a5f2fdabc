"""A checkpoint from which starts come to nothing is passed over, by a program that no controller watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.records.attempts import LIMIT

pytestmark = pytest.mark.torch


def start(path: Path, save: int | None = None) -> int:
    """The step that a start of the program restores; it comes to a save, or to nothing."""
    with Checkpointer(path, {"n": {"epoch": 0}}) as checkpointer:
        step = checkpointer.restore()
        if save is not None:
            checkpointer.save(save)
            assert checkpointer.wait().committed
        return step


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    start(tmp_path, save=10)
    start(tmp_path, save=20)
    return tmp_path


def test_after_so_many_starts_the_one_before_it_is_taken(saved: Path) -> None:
    assert [start(saved) for _ in range(LIMIT + 1)] == [20] * LIMIT + [10]


def test_a_start_that_comes_to_a_save_clears_it(saved: Path) -> None:
    assert [start(saved) for _ in range(LIMIT - 1)] == [20] * (LIMIT - 1)
    assert start(saved, save=30) == 20
    assert [start(saved) for _ in range(LIMIT)] == [30] * LIMIT


def test_it_is_taken_all_the_same_where_there_is_no_other(tmp_path: Path) -> None:
    start(tmp_path, save=10)
    assert [start(tmp_path) for _ in range(LIMIT + 1)] == [10] * (LIMIT + 1)
