"""A real etcd for every test in here: a single member, and three with TLS."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Phase
from tests.etcd.running import PATIENT, run
from tests.etcd.servers import Cluster, Member, make_certificates, start_single
from tests.etcd.world import World, until


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


@pytest.fixture
def play(etcd: Member) -> Callable[[Callable[[World], Any]], None]:
    """Runs a test's body with a world of two nodes that has a history of one generation."""

    async def body(test: Callable[[World], Any]) -> None:
        store = EtcdStore([etcd.endpoint], **PATIENT)
        world = World(store, etcd.endpoint, JobKeys(f"commands {uuid.uuid4().hex}"), {})
        try:
            await world.join(0)
            await world.join(1)
            async with world.led() as term:
                await until(lambda: term.job.phase is Phase.RUNNING)
            await test(world)
        finally:
            await store.close()

    return lambda test: run(body(test))
