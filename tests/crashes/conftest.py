"""Fixtures of the tests that disturb saves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHM = Path("/dev/shm")


@pytest.fixture(scope="session")
def fast_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory, where there is one: tests with a thousand saves need not wait for a disk."""
    if not _SHM.is_dir():
        yield tmp_path_factory.mktemp("disk")
        return
    made = Path(tempfile.mkdtemp(prefix="elaunch-tests-", dir=_SHM))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def folder(fast_disk: Path) -> Iterator[Path]:
    """A new folder on it, for one test."""
    made = Path(tempfile.mkdtemp(dir=fast_disk))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def template(fast_disk: Path) -> Path:
    """A directory with the checkpoints of scenes.BEFORE."""
    from tests.crashes import forge, scenes

    root = fast_disk / "template"
    forge.run(scenes.prepare, root)
    return root


@pytest.fixture(scope="session")
def what_it_does(template: Path, fast_disk: Path) -> list[str]:
    """The kinds of all operations on the disk of one save, and the removal of older ones after it."""
    from tests.crashes import forge, scenes

    root = fast_disk / "operations"
    shutil.copytree(template, root)
    return [kind for kind, _ in forge.run(scenes.operations, root)]


@pytest.fixture(scope="session")
def operations(what_it_does: list[str]) -> int:
    """How many they are."""
    return len(what_it_does)
