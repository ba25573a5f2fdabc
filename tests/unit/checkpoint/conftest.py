"""A process group of one, for tests with DTensors, and folders for the tests that disturb saves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    dist.destroy_process_group()


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
    from tests.unit.checkpoint import forge, scenes

    root = fast_disk / "template"
    forge.run(scenes.prepare, root)
    return root
