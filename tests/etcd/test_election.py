"""Who leads, and who leads next."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from contextlib import aclosing

import pytest

from elaunch.errors import DeposedError, LeaseLostError
from elaunch.rendezvous.election import Election, Leadership
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.fence import commit
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader
from elaunch.rendezvous.store import Put, Store
from tests.etcd.memory_store import MemoryStore
from tests.etcd.proxy import Cut, proxied
from tests.etcd.running import PATIENT, opened, run
from tests.etcd.servers import Member


def candidate(name: str) -> Leader:
    return Leader(name, f"{name}:1", uuid.uuid4().hex)


@pytest.fixture
def keys() -> JobKeys:
    return JobKeys(f"election {uuid.uuid4().hex}")


@pytest.fixture(params=["etcd", "memory"])
def store_maker(request: pytest.FixtureRequest):
    if request.param == "memory":
        return MemoryStore
    endpoint = request.getfixturevalue("etcd").endpoint
    return lambda: EtcdStore([endpoint], **PATIENT)


async def campaign(store: Store, keys: JobKeys, name: str, ttl: int = 60) -> tuple[Leadership, int]:
    lease = await store.grant(ttl)
    election = Election(store, keys, lease)
    try:
        return await election.campaign(candidate(name)), lease
    finally:
        await election.close()


def test_one_of_many_leads_and_each_in_turn(store_maker, keys: JobKeys) -> None:
    async def body() -> None:
        store = store_maker()
        running = {asyncio.create_task(campaign(store, keys, f"n{i}")) for i in range(5)}
        epochs = []
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1
            leadership, lease = done.pop().result()
            kv = await store.get(keys.leader)
            assert kv is not None
            assert kv.create_revision == leadership.epoch
            epochs.append(leadership.epoch)
            await store.revoke(lease)
        assert epochs == sorted(set(epochs))
        await store.close()

    run(body())


def test_an_observer_sees_every_leader(store_maker, keys: JobKeys) -> None:
    async def body() -> None:
        store = store_maker()
        onlooker = Election(store, keys, 0)
        async with aclosing(onlooker.observe()) as views:
            assert await anext(views) is None
            for name in ("first", "second"):
                leadership, lease = await campaign(store, keys, name)
                seen = await anext(views)
                assert seen is not None
                assert (seen[0], seen[1].node_id) == (leadership.epoch, name)
                async with aclosing(onlooker.observe()) as late:
                    assert await anext(late) == seen
                await store.revoke(lease)
                assert await anext(views) is None
        await onlooker.close()
        await store.close()

    run(body())


def test_the_next_leader_fences_the_last(store_maker, keys: JobKeys) -> None:
    async def body() -> None:
        store = store_maker()
        old, lease = await campaign(store, keys, "old")
        await commit(store, [old.guard], [Put(keys.state, b"1")], token_key=keys.prefix + "commit")
        await store.revoke(lease)
        new, _ = await campaign(store, keys, "new")
        with pytest.raises(DeposedError):
            await commit(store, [old.guard], [Put(keys.state, b"2")], token_key=keys.prefix + "commit")
        await commit(store, [new.guard], [Put(keys.state, b"3")], token_key=keys.prefix + "commit")
        await store.close()

    run(body())


def test_nobody_leads_on_a_lease_that_is_gone(store_maker, keys: JobKeys) -> None:
    async def body() -> None:
        store = store_maker()
        lease = await store.grant(60)
        await store.revoke(lease)
        election = Election(store, keys, lease)
        with pytest.raises(LeaseLostError):
            await election.campaign(candidate("late"))
        await election.close()
        await store.close()

    run(body())


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_an_election_whose_answer_was_lost_is_won_once(etcd: Member, keys: JobKeys, cut: Cut) -> None:
    async def body() -> None:
        async with (
            opened(etcd.endpoint, **PATIENT) as direct,
            proxied(etcd.endpoint) as proxy,
            opened(proxy.endpoint, **PATIENT) as store,
        ):

            async def leads() -> None:
                async for _ in direct.watch(keys.leader, start_revision=1):
                    return

            proxy.arm(b"contender", cut, leads)
            leadership, _ = await campaign(store, keys, "contender")
            assert proxy.cuts == 1
            kv = await direct.get(keys.leader)
            assert kv is not None
            assert kv.create_revision == leadership.epoch

    run(body())


_HOLDER = """
import asyncio, sys
from elaunch.clock import SystemClock
from elaunch.rendezvous.election import Election
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Leader

async def main():
    store = EtcdStore([sys.argv[1]])
    lease = await Lease.open(store, int(sys.argv[3]), clock=SystemClock(), on_deadline=lambda _: None)
    keeping = asyncio.create_task(lease.keep())
    won = await Election(store, JobKeys(sys.argv[2]), lease.id).campaign(Leader("holder", "h:1", "secret"))
    print(won.epoch, flush=True)
    await keeping

asyncio.run(main())
"""


def _followed_once_killed(etcd: Member, keys: JobKeys, ttl: int) -> bool:
    """The next one leads once the holder is killed; False where the holder has given its lease up before."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, etcd.endpoint, keys.job, str(ttl)], stdout=subprocess.PIPE, text=True
    )

    async def body(first: int) -> bool:
        async with opened(etcd.endpoint, **PATIENT) as store:
            running = asyncio.create_task(campaign(store, keys, "next"))
            done, _ = await asyncio.wait({running}, timeout=1.5 * ttl)  # longer than the holder's lease, which it keeps
            if done:
                assert await asyncio.to_thread(holder.wait, 60) == 1
                return False
            holder.kill()
            leadership, _ = await running
            assert leadership.epoch > first
            return True

    try:
        assert holder.stdout is not None
        won = holder.stdout.readline()
        return bool(won) and run(body(int(won)))
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.slow
def test_a_killed_leader_is_followed_by_the_next(etcd: Member, keys: JobKeys) -> None:
    # A machine that stands still for a moment costs the holder so short a lease: then it is to keep a longer one.
    assert any(_followed_once_killed(etcd, JobKeys(f"{keys.job} {ttl}"), ttl) for ttl in (1, 4, 12))
