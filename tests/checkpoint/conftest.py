"""A process group of one, for tests with DTensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from tests.checkpoint import buckets


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server with a bucket."""
    if buckets.ABSENT:
        pytest.skip(buckets.WHY)
    import s3fs

    with buckets.server() as endpoint:
        s3fs.S3FileSystem(key="key", secret="secret", endpoint_url=endpoint).mkdir(buckets.BUCKET)
        yield endpoint
