"""Real trouble with a disk, in the middle of a training: it goes on, is told, and the next save that can be made is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.crashes import forge, troubles

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: needs root")
def test_a_full_disk(folder: Path) -> None:
    assert "No space left on device" in forge.run(troubles.on_a_full_disk, folder)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: needs root")
def test_a_disk_that_may_only_be_read(folder: Path) -> None:
    assert "Read-only file system" in forge.run(troubles.on_a_read_only_disk, folder)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: needs root")
def test_a_disk_that_is_unmounted_is_not_written_beside(folder: Path) -> None:
    events = forge.run(troubles.on_an_unmounted_disk, folder)
    assert "its file system unmounted?" in events[0]
    assert "is not mounted" in events[1]
    assert len(events) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user: needs root")
def test_a_directory_that_may_not_be_written_to(template: Path, folder: Path) -> None:
    assert "Permission denied" in forge.run(troubles.without_permission, _copy(template, folder))


def test_a_limit_on_sizes(template: Path, folder: Path) -> None:
    assert "File too large" in forge.run(troubles.with_a_limit, _copy(template, folder))


def test_a_directory_that_is_moved_away_and_comes_back(template: Path, folder: Path) -> None:
    events = forge.run(troubles.moved_away, _copy(template, folder))
    assert len(events) == 1
    assert "the claim of this run is not there any more" in events[0]


def test_a_directory_that_is_removed_is_begun_anew(template: Path, folder: Path) -> None:
    events = forge.run(troubles.removed, _copy(template, folder))
    assert len(events) == 1
    assert "the next save looks again" in events[0]


def test_a_directory_that_is_removed_while_a_save_writes_to_it(template: Path, folder: Path) -> None:
    events = forge.run(troubles.removed_meanwhile, _copy(template, folder))
    assert 1 <= len(events) <= 2, events


def test_counts_and_marks_that_cannot_be_written_keep_nobody_from_restoring(template: Path, folder: Path) -> None:
    assert "is not counted" in forge.run(troubles.restored_on_a_full_disk, _copy(template, folder))


def test_what_was_saved_after_going_back_is_newer(template: Path, folder: Path) -> None:
    assert forge.run(troubles.gone_back, _copy(template, folder)) == [
        "step-00000020",  # which was restored
        "step-00000021",
        "step-00000022.claim-4",
    ]


def test_going_back_may_fail_anywhere_and_the_next_save_is_newer_all_the_same(template: Path, folder: Path) -> None:
    count, wrong = forge.run(troubles.gone_back_in_trouble, template, folder)
    assert count > 30
    assert not wrong, wrong


def test_a_name_that_was_set_aside_is_not_used_again(template: Path, folder: Path) -> None:
    names = forge.run(troubles.set_aside_before, _copy(template, folder))
    assert names == ["step-00000020", "step-00000030.claim-2"]


def _copy(template: Path, folder: Path) -> Path:
    root = folder / "run"
    shutil.copytree(template, root)
    os.chmod(folder.parent, 0o755)
    os.chmod(folder, 0o755)
    return root
