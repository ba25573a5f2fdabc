"""Random number generators are part of every checkpoint, unless the program says otherwise."""

from __future__ import annotations

from pathlib import Path

import torch

from elaunch.checkpoint import RNG, Checkpointer


def test_the_generators_go_on_where_they_were(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"n": {"epoch": 1}}) as checkpointer:
        checkpointer.save(1)
    expected = torch.rand(3)
    torch.manual_seed(99)
    with Checkpointer(tmp_path, {"n": {"epoch": 0}}) as checkpointer:
        assert checkpointer.restore() == 1
    assert torch.equal(torch.rand(3), expected)


def test_a_checkpoint_without_them_is_restored_all_the_same(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"n": {"epoch": 1}}, rng=False) as checkpointer:
        checkpointer.save(1)
    state = {"epoch": 0}
    torch.manual_seed(7)
    with Checkpointer(tmp_path, {"n": state}) as checkpointer:
        assert checkpointer.restore() == 1
    drawn = torch.rand(2)
    torch.manual_seed(7)
    assert (state, drawn.tolist()) == ({"epoch": 1}, torch.rand(2).tolist())


def test_those_of_the_program_itself_are_not_doubled(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"mine": RNG()}) as checkpointer:
        checkpointer.save(1)
        assert checkpointer.wait().committed
    text = (tmp_path / "step-00000001/manifest.json").read_text()
    assert "mine" in text
    assert "rng" not in text
