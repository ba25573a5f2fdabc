"""Ranks that do not save the same are told how they differ, all of them, and none waits for another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.crews import Crew

pytestmark = [pytest.mark.slow, pytest.mark.torch]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as made:
        yield made


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("another_shape", "'model.weight' has shape (2, 2) on rank 0 and (3, 2) on rank 1"),
        ("another_name", "rank 0 has a state 'n0' and rank 1 has none"),
        ("another_step", "rank 0 saves step 1 where rank 1 saves step 2"),
        ("another_batch", "state 'data' differs between ranks 0 and 1: they have drawn different numbers of samples"),
    ],
)
def test_what_differs_is_said_on_every_rank(crew: Crew, tmp_path: Path, mistake: str, said: str) -> None:
    for sentence in crew.do(f"tests.programs.checkpoint_mistakes:{mistake}", 2, {"path": str(tmp_path)}):
        assert sentence.startswith(said)


def test_a_save_on_rank_0_alone_ends_with_what_to_do(crew: Crew, tmp_path: Path) -> None:
    alone, _ = crew.do("tests.programs.checkpoint_mistakes:on_rank_0_alone", 2, {"path": str(tmp_path)})
    assert "has not made the same call: save, restore and close are made by every rank" in alone
    assert ".cc:" not in alone
