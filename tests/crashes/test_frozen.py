"""A process is frozen at any operation of a save; a later generation goes on; it wakes, and can do nothing any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.checkpoint.storages import layout
from tests.crashes import forge, scenes

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def frozen() -> Iterator[list[forge.Child]]:
    children: list[forge.Child] = []
    yield children
    for child in children:
        child.end()


def test_frozen_at_every_operation(template: Path, folder: Path, frozen: list[forge.Child], operations: int) -> None:
    roots = [folder / f"{number}" for number in range(operations)]
    for number, root in enumerate(roots):
        shutil.copytree(template, root)
        frozen.append(forge.start(scenes.save_and_freeze, root, number, 1))
    for number, old in enumerate(frozen):
        assert old.await_frozen(), f"it ended before its operation {number}"
    there = [scenes.steps(root) for root in roots]
    assert forge.run(scenes.all_go_on, roots, 2) == [max(steps) for steps in there]
    saves = []
    for root, old, steps in zip(roots, frozen, there, strict=True):
        before = scenes.tree(root)
        old.wake()
        events, saved = old.value()
        where = f"at operation {root.name}: {events}"
        assert scenes.tree(root) == before, where
        assert saved == (scenes.STEP in steps), where
        assert saved or len(events) == 1, where
        assert not [one for one in scenes.left_over(root) if not one.startswith(layout.RETIRED)], where
        saves.append(saved)
    assert saves.count(False) > 10
    assert saves.count(True) > 2


PLACES = [
    (0, "mkdir", "/staging/"),
    (0, "listdir", "/claims"),
    (0, "create", "__0_0.distcp"),
    (1, "create", "__1_0.distcp"),
    (1, "write", "__1_0.distcp"),
    (1, "fsync", "__1_0.distcp"),
    (0, "create", "manifest.json"),
    (0, "rename", "/staging/"),
]


def test_one_of_two_ranks_is_frozen(folder: Path, frozen: list[forge.Child]) -> None:
    cases = []
    for number, where in enumerate(PLACES):
        root = folder / f"{number}"
        first = [forge.start(scenes.pair, root, folder / f"{number}.first", rank, 1, None, (10,)) for rank in (0, 1)]
        assert [child.value() for child in first] == [(0, [], True)] * 2
        both = [forge.start(scenes.pair, root, folder / f"{number}.old", rank, 2, where, (20,)) for rank in (0, 1)]
        frozen += both
        cases.append((root, where, both))
    for root, where, both in cases:
        assert both[where[0]].await_frozen(), where
        store = root.with_suffix(".new")
        new = [forge.start(scenes.pair, root, store, rank, 3, None, (30, 40)) for rank in (0, 1)]
        assert [child.value() for child in new] == [(10, [], True)] * 2, where
        before = scenes.tree(root)
        both[where[0]].wake()
        (_, events, saved), (_, _, saved_too) = [child.value() for child in both]
        assert (saved, saved_too, len(events)) == (False, False, 1), (where, events)
        assert "generation 3" in events[0] or "No such file" in events[0], events
        assert scenes.tree(root) == before, (where, events)
        assert scenes.steps(root) == {10, 30, 40}  # the one that was restored is not removed
