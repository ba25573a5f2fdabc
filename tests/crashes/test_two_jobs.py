"""Two jobs at one directory: the second one hears of it on all of its ranks, and has touched nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.checkpoint.records.claims import Owner, claim
from elaunch.checkpoint.storages.posix import Posix
from tests.crashes import forge, scenes

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_all_ranks_of_the_second_are_refused(folder: Path) -> None:
    root = folder / "run"
    first = claim(Posix(root), Owner("first", "once", 7, "gpu-3", 42, 0.0), 0)
    before = scenes.tree(root)
    second = [forge.start(scenes.pair, root, folder / "store", rank, 1, None, (10,)) for rank in (0, 1)]
    for child in second:
        with pytest.raises(AssertionError) as refused:
            child.value()
        said = str(refused.value).splitlines()[-1]
        assert said.startswith(f"elaunch.errors.DirectoryInUseError: {root}: job first generation 7 on gpu-3 (pid 42)")
    assert scenes.tree(root) == before
    first.check()
    first.release()
