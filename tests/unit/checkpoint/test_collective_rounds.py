"""What ends a round on one rank alone: word of it is there before the others hear of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from elaunch.checkpoint.collective.ranks import Alone, rounds  # noqa: E402
from elaunch.errors import CheckpointError  # noqa: E402


class Told(Alone):
    def __init__(self, file: Path) -> None:
        self.file = file
        self.found: list[bool] = []

    def leave(self, why: str) -> None:
        self.found.append(self.file.exists())


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    return Told(tmp_path / "error.json")


def test_what_ends_the_program_is_left_before_the_others_hear_of_it(ranks: Told) -> None:
    with pytest.raises(ValueError, match="no good"), rounds(ranks, fatal=True):
        raise ValueError("no good")
    assert ranks.found == [True]
    assert json.loads(ranks.file.read_text())["message"]["message"] == "ValueError: no good"


def test_what_a_program_may_go_on_after_is_not_left(ranks: Told) -> None:
    with pytest.raises(ValueError, match="no good"), rounds(ranks):
        raise ValueError("no good")
    assert ranks.found == [False]
    with pytest.raises(CheckpointError), rounds(ranks, fatal=True):
        raise CheckpointError("of all ranks alike")
    assert ranks.found == [False]
