"""One save, and the removal of older ones after it: killed, or refused, at every thing that it does to the disk."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.crashes import forge, scenes

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


def test_what_is_disturbed_is_all_that_there_is(what_it_does: list[str]) -> None:
    assert {"mkdir", "create", "write", "fsync", "rename", "unlink", "rmdir", "listdir"} <= set(what_it_does)
    assert what_it_does.count("write") >= 3
    assert what_it_does.count("fsync") >= 6


def test_killed_at_every_operation(template: Path, what_it_does: list[str], folder: Path) -> None:
    places = [(folder / f"{number}", folder / f"{number}.said") for number in range(len(what_it_does))]
    children = []
    for number, (root, said) in enumerate(places):
        shutil.copytree(template, root)
        children.append(forge.start(scenes.save_and_die, root, number, said))
    assert {child.code() for child in children} == {-9}
    wrong = forge.run(scenes.look_all, places)
    assert not wrong, wrong
    assert {said.exists() for _, said in places} == {True, False}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_one_operation_fails(template: Path, what_it_does: list[str], folder: Path, code: int) -> None:
    wrong = forge.run(scenes.trouble_everywhere, template, folder, len(what_it_does), code, False)
    assert not wrong, wrong


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
def test_all_fails_from_one_operation_on(template: Path, what_it_does: list[str], folder: Path, code: int) -> None:
    """As it is on a full disk, with a used-up quota, or in a directory that may only be read."""
    wrong = forge.run(scenes.trouble_everywhere, template, folder, len(what_it_does), code, True)
    assert not wrong, wrong
