"""A process group of one, for tests with DTensors."""

from __future__ import annotations

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
