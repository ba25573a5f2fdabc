"""A process is frozen at any operation of a save; a later generation goes on; it wakes, and can do nothing any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.checkpoint import layout
from tests.unit.crashes import forge, scenes

pytestmark = [pytest.mark.torch, pytest.mark.slow]


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
