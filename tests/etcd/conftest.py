"""A real etcd for every test in here: a single member, and three with TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.etcd.servers import Cluster, Member, make_certificates, start_single


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """One member for all tests; a test must leave it running, and use keys of its own."""
    member = start_single(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Member]:
    """One member for this test, which may do with it what it likes."""
    member = start_single(tmp_path)
    yield member
    member.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three members with TLS and client certificates, for this test alone."""
    trio = Cluster(tmp_path, make_certificates(tmp_path))
    try:
        trio.start()
        yield trio
    finally:
        trio.kill()
