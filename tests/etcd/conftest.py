"""A real etcd for every test in here: a single member, and three with TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.rendezvous.etcd import EtcdStore
from tests.etcd.servers import Cluster, Member, make_certificates, start_single


def until(seconds: float, coroutine):
    """Run a test's coroutine with a deadline."""
    return asyncio.run(asyncio.wait_for(coroutine, seconds))


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


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members with TLS and client certificates."""
    directory = tmp_path_factory.mktemp("cluster")
    trio = Cluster(directory, make_certificates(directory))
    trio.start()
    yield trio
    trio.kill()


@pytest.fixture
def store_of(request: pytest.FixtureRequest):
    """Makes stores on an etcd; the test's own loop closes them."""

    def make(member: Member, **options) -> EtcdStore:
        return EtcdStore([member.endpoint], **options)

    return make
