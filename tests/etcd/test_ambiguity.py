"""A write whose answer was lost: never told as failed or done unless it is, and applied once at most."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from elaunch.errors import AmbiguousError, ConflictError, DeposedError, EtcdLostError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.fence import Committer, commit
from elaunch.rendezvous.store import Compare, Field, Put, Store, absent
from tests.etcd.memory_store import MemoryStore
from tests.etcd.proxy import Cut, proxied
from tests.etcd.running import PATIENT, opened, run
from tests.etcd.servers import Member, free_port


async def changed(store: Store, key: str, *, after: int = 0) -> None:
    while True:
        kv = await store.get(key)
        if kv is not None and kv.mod_revision > after:
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def prefix() -> str:
    return f"/ambiguity/{uuid.uuid4().hex}/"


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_transaction_that_was_sent_and_not_answered_is_ambiguous(etcd: Member, prefix: str, cut: Cut) -> None:
    async def body() -> None:
        async with (
            opened(etcd.endpoint, **PATIENT) as direct,
            proxied(etcd.endpoint) as proxy,
            opened(proxy.endpoint, **PATIENT) as store,
        ):
            await store.get(prefix)
            proxy.arm(prefix.encode(), cut, lambda: changed(direct, prefix + "a"))
            with pytest.raises(AmbiguousError, match="was sent"):
                await store.txn([absent(prefix + "a")], [Put(prefix + "a", b"1")])
            assert proxy.cuts == 1
            assert (await store.get(prefix + "a") is not None) == (cut is Cut.AFTER)

    run(body())


def test_a_transaction_that_was_never_sent_is_not_ambiguous(etcd: Member, prefix: str) -> None:
    async def body() -> None:
        nobody = f"127.0.0.1:{free_port()}"
        async with opened(nobody, etcd.endpoint, **PATIENT) as store:
            assert (await store.txn([absent(prefix + "a")], [Put(prefix + "a", b"1")])).succeeded
        async with opened(nobody, deadline=0.6) as store:
            with pytest.raises(EtcdLostError, match=rf"{nobody} did not answer within \d\.\d s .*cannot connect"):
                await store.txn([], [Put(prefix + "a", b"1")])

    run(body())


def test_an_idempotent_call_is_sent_again(etcd: Member, prefix: str) -> None:
    async def body() -> None:
        async with proxied(etcd.endpoint) as proxy, opened(proxy.endpoint, **PATIENT) as store:
            for cut in (Cut.BEFORE, Cut.AFTER):
                await store.get("/")
                proxy.arm(prefix.encode(), cut)
                await store.put(prefix + "a", cut.name.encode())
                kv = await store.get(prefix + "a")
                assert kv is not None
                assert kv.value == cut.name.encode()
            assert proxy.cuts == 2

    run(body())


@pytest.mark.parametrize("cut", list(Cut))
def test_a_commit_is_applied_exactly_once(etcd: Member, prefix: str, cut: Cut) -> None:
    async def body() -> None:
        async with (
            opened(etcd.endpoint, **PATIENT) as direct,
            proxied(etcd.endpoint) as proxy,
            opened(proxy.endpoint, **PATIENT) as store,
        ):
            leader = await direct.put(prefix + "leader", b"me")
            guards = [Compare(prefix + "leader", Field.CREATE_REVISION, leader)]
            before = await commit(store, guards, [Put(prefix + "n", b"0")], token_key=prefix + "token")
            proxy.arm(b"one", cut, lambda: changed(direct, prefix + "n", after=before))
            revision = await commit(store, guards, [Put(prefix + "n", b"one")], token_key=prefix + "token")
            await commit(store, guards, [Put(prefix + "n", b"two")], token_key=prefix + "token")
            await proxy.deliver()
            await direct.put(prefix + "end", b"")
            told: list[tuple[int, bytes]] = []
            async for _, changes in direct.watch(prefix, start_revision=before + 1):
                told += [(c.kv.mod_revision, c.kv.value) for c in changes if c.kv.key != prefix + "token"]
                if told[-1][1] == b"":
                    break
            assert proxy.cuts == 1
            assert [value for _, value in told] == [b"one", b"two", b""]
            assert told[0][0] == revision

    run(body())


@pytest.fixture(params=["etcd", "memory"])
def store_maker(request: pytest.FixtureRequest):
    if request.param == "memory":
        return MemoryStore
    endpoint = request.getfixturevalue("etcd").endpoint
    return lambda: EtcdStore([endpoint], **PATIENT)


def test_authors_that_remember_their_last_commit_do_not_overwrite_each_other(store_maker, prefix: str) -> None:
    async def body() -> None:
        store = store_maker()
        one, other = (Committer(store, prefix + "token") for _ in range(2))
        revisions = []
        for n, author in enumerate((one, one, other, one, other)):
            revisions.append(await author.commit([absent(f"{prefix}{n}")], [Put(f"{prefix}{n}", b"")]))
            kv = await store.get(f"{prefix}{n}")
            assert kv is not None
            assert kv.mod_revision == revisions[-1]
        assert revisions == sorted({*revisions})
        with pytest.raises(ConflictError):
            await one.commit([absent(prefix + "0")], [Put(prefix + "0", b"again")])
        await one.commit([], [Put(prefix + "5", b"")])
        await store.close()

    run(body())


def test_a_deposed_leader_cannot_write(store_maker, prefix: str) -> None:
    async def body() -> None:
        store = store_maker()
        epoch = await store.put(prefix + "leader", b"old")
        guard = Compare(prefix + "leader", Field.CREATE_REVISION, epoch)
        await commit(store, [guard], [Put(prefix + "state", b"1")], token_key=prefix + "token")
        await store.delete(prefix + "leader")
        with pytest.raises(DeposedError):
            await commit(store, [guard], [Put(prefix + "state", b"2")], token_key=prefix + "token")
        await store.put(prefix + "leader", b"new")
        with pytest.raises(DeposedError):
            await commit(store, [guard], [Put(prefix + "state", b"3")], token_key=prefix + "token")
        kv = await store.get(prefix + "state")
        assert kv is not None
        assert kv.value == b"1"
        await store.close()

    run(body())


def test_another_failed_guard_is_a_conflict(store_maker, prefix: str) -> None:
    async def body() -> None:
        store = store_maker()
        epoch = await store.put(prefix + "leader", b"me")
        guard = Compare(prefix + "leader", Field.CREATE_REVISION, epoch)
        await store.put(prefix + "plan", b"there already")
        with pytest.raises(ConflictError, match="plan has changed"):
            await commit(
                store,
                [guard, absent(prefix + "plan")],
                [Put(prefix + "plan", b"")],
                token_key=prefix + "token",
            )
        await store.close()

    run(body())


def test_two_writers_with_one_token_key_do_not_hinder_each_other(store_maker, prefix: str) -> None:
    async def body() -> None:
        store = store_maker()
        await asyncio.gather(
            *(commit(store, [], [Put(f"{prefix}{i}", b"")], token_key=prefix + "token") for i in range(8))
        )
        assert len((await store.list(prefix)).items) == 9
        await store.close()

    run(body())
