"""A restore that takes long says how far it is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.collective import pace
from elaunch.checkpoint.collective.pace import EVERY, Pace

pytestmark = pytest.mark.torch


def test_it_tells_at_its_pace_and_how_long_it_still_takes() -> None:
    now, told = [100.0], []
    one = Pace("step-8", told.append, lambda: now[0])
    for second in range(1, 41):
        now[0] = 100.0 + second
        one.advance(second * 10**8, 40 * 10**8)
    assert told == [
        "step-8: 25% is read, 1.00 of 4.00 GB on this rank, about 30 s left",
        "step-8: 50% is read, 2.00 of 4.00 GB on this rank, about 20 s left",
        "step-8: 75% is read, 3.00 of 4.00 GB on this rank, about 10 s left",
    ]


def test_what_is_soon_done_is_not_told() -> None:
    told: list[str] = []
    one = Pace("step-8", told.append, lambda: 0.0)
    one.advance(1, 2)
    assert not told
    assert EVERY > 1


def test_a_restore_tells_all_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = {"a": torch.zeros(1000), "b": torch.ones(3, 1000), "n": 5}
    with Checkpointer(tmp_path, {"state": state}) as checkpointer:
        checkpointer.save(8)
        assert checkpointer.wait().committed
    monkeypatch.setattr(pace, "EVERY", -1.0)
    seen: list[tuple[int, int]] = []
    advance = Pace.advance

    def noted(self: Pace, done: int, whole: int) -> None:
        seen.append((done, whole))
        advance(self, done, whole)

    monkeypatch.setattr(Pace, "advance", noted)
    with caplog.at_level(logging.WARNING), Checkpointer(tmp_path, {"state": state}) as checkpointer:
        assert checkpointer.restore() == 8
    assert len(seen) >= 3
    assert seen[-1][0] == seen[-1][1] >= 16_000
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert "checkpoint_reading: " in caplog.text
    assert "is read, " in caplog.text
