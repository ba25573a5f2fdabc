"""A node rank that was asked for: who has it, who waits for it, who is refused."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from elaunch.clock import SystemClock
from elaunch.errors import RankTakenError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Node, Spec
from elaunch.rendezvous.seats import await_seat
from tests.etcd.servers import Member

pytestmark = [pytest.mark.slow]

SPEC = Spec(1, 4, 3, {"default": {"nproc": 1, "program": "train.py"}})
TTL = 2  # seconds of a lease that ends in a test
LONG = 60  # seconds of one that does not
OLD = Node("old", "gpu-07", "10.0.0.1", 1, 1000, "10.0.0.1:1", node_rank=1, owns_rank=True)
NEW = replace(OLD, node_id="new", host="gpu-09")


def with_holder(etcd: Member, test: Callable[[EtcdStore, JobKeys, Lease], Awaitable[None]], ttl: int = LONG) -> None:
    """Run ``test`` in a job in which ``OLD`` has just come, on a lease that the test may renew."""

    async def run() -> None:
        store, keys = EtcdStore([etcd.endpoint]), JobKeys(uuid.uuid4().hex)
        try:
            lease = await Lease.open(store, ttl, clock=SystemClock(), on_deadline=lambda _: None)
            await join(store, keys, SPEC, OLD, lease.id)
            await test(store, keys, lease)
        finally:
            await store.close()

    asyncio.run(run())


async def come(store: EtcdStore, keys: JobKeys, node: Node, ttl: int = TTL) -> list[str]:
    """Wait for the node's rank, join; who was waited for."""
    told: list[str] = []
    await await_seat(store, keys, node, ttl, lambda holder, _: told.append(holder))
    await join(store, keys, SPEC, node, await store.grant(60))
    return told


def test_a_replacement_waits_until_the_dead_ones_lease_has_ended(etcd: Member) -> None:
    async def test(store: EtcdStore, keys: JobKeys, _: Lease) -> None:
        assert await come(store, keys, NEW, LONG) == ["--node-rank=1 is held by node gpu-07 (old)"]
        assert [kv.key for kv in (await store.list(keys.nodes)).items] == [keys.node("new")]

    with_holder(etcd, test, TTL)


def test_a_rank_that_is_given_back_is_taken_at_once(etcd: Member) -> None:
    async def test(store: EtcdStore, keys: JobKeys, lease: Lease) -> None:
        coming = asyncio.create_task(come(store, keys, NEW, LONG))
        await asyncio.wait([coming], timeout=0.5)
        assert not coming.done(), "it waits while the lease lives"
        await store.revoke(lease.id)
        assert await asyncio.wait_for(coming, LONG / 2)

    with_holder(etcd, test)


def test_a_second_node_is_refused_while_the_first_lives(etcd: Member) -> None:
    async def test(store: EtcdStore, keys: JobKeys, lease: Lease) -> None:
        keeping = asyncio.create_task(lease.keep())
        with pytest.raises(RankTakenError) as refused:
            await come(store, keys, NEW)
        assert "--node-rank=1 is taken by node gpu-07 (old), which is alive" in str(refused.value)
        assert refused.value.exit_code == 2
        assert await come(store, keys, replace(NEW, node_rank=10)) == []  # another rank is another's
        assert not keeping.done()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    with_holder(etcd, test)
