"""A loss of power at every instant of a program's saves: what was not synced is gone, or half there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashes import forge, lossy, scenes

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


def test_whatever_the_disk_has_lost_what_was_committed_is_restored(folder: Path) -> None:
    base = folder / "life"
    base.mkdir()
    operations = forge.run(scenes.life, base)
    assert [step for kind, _, step in operations if kind == "committed"] == [10, 20, 30, 40, 50]
    looked_at, wrong = forge.run(scenes.after_power_losses, operations, folder)
    assert not wrong, wrong
    assert looked_at > 200


def test_the_model_loses_what_was_not_synced() -> None:
    done: list[lossy.Operation] = [("mkdir", "a", ""), ("create", "a/f", ""), ("write", "a/f", b"one")]
    nothing, everything, names, zeros = lossy.states(lossy.replayed(done), 0, 0)
    assert nothing == {}
    assert everything == {"a": None, "a/f": b"one"}
    assert names == {"a": None, "a/f": b""}
    assert zeros == {"a": None, "a/f": b"\0\0\0"}
    synced = lossy.replayed([*done, ("fsync", "a/f", ""), ("fsync", "a", ""), ("fsync", "", "")])
    assert lossy.states(synced, 0, 0)[0] == {"a": None, "a/f": b"one"}
    unlinked = lossy.replayed([*done, ("fsync", "a/f", ""), ("fsync", "", "")])
    assert lossy.states(unlinked, 0, 0)[0] == {"a": None}


def test_the_model_renames_as_one_step() -> None:
    done: list[lossy.Operation] = [("mkdir", "a", ""), ("mkdir", "b", ""), ("mkdir", "a/x", ""), ("fsync", "", "")]
    done += [("fsync", "a", ""), ("rename", "a/x", "b/x")]
    assert lossy.states(lossy.replayed(done), 0, 0)[0] == {"a": None, "b": None, "a/x": None}
    assert lossy.states(lossy.replayed([*done, ("fsync", "b", "")]), 0, 0)[0] == {"a": None, "b": None, "b/x": None}
