"""One Slurm for all tests of this folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.batch import Batch
from tests.slurm.cluster import Cluster, missing

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(f"no Slurm here: {why}")
    with Cluster() as running:
        yield running


@pytest.fixture
def batch(cluster: Cluster) -> Iterator[Batch]:
    """A job of one test. Whatever comes of it, none is left, and nothing runs on any host."""
    out = Path(cluster.home) / "out" / str(next(_numbers))
    out.mkdir()
    job = Batch(cluster, out)
    yield job
    job.close()
