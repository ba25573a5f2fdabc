"""Tests that need root and network namespaces; elsewhere they are left out, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import MakeJob as MakeJob
from tests.e2e.conftest import job as job
from tests.etcd.servers import Member, start_single
from tests.lab.network import Network, impossible


@pytest.fixture(scope="session")
def three() -> Iterator[Network]:
    """Three hosts with two rails. A test leaves them as it has found them."""
    if why := impossible():
        pytest.skip(why)
    with Network(3) as made:
        yield made


@pytest.fixture(scope="session")
def etcd(three: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """An etcd that all three hosts reach over their control interfaces."""
    member = start_single(tmp_path_factory.mktemp("etcd"), three.control(254))
    yield member
    member.kill()
