"""What every store must do; a library that would take the place of ours has to pass this."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from elaunch.errors import CompactedError, LeaseLostError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.methods import COMPACT
from elaunch.rendezvous.store import Change, Compare, Delete, Field, Put, Store, Txn, TxnResult, absent
from tests.etcd.memory_store import MemoryStore
from tests.etcd.running import PATIENT, run
from tests.etcd.servers import Member


async def compact(store: Store) -> None:
    if isinstance(store, MemoryStore):
        store.compact()
        return
    assert isinstance(store, EtcdStore)
    now = (await store.list("/")).revision
    await store._transport.call(COMPACT, pb.CompactionRequest(revision=now, physical=True))


@pytest.fixture(params=["etcd", "memory"])
def check(request: pytest.FixtureRequest) -> Callable[[Callable[[Store, str], Awaitable[None]]], None]:
    """Runs a test's body with a store and a prefix that is its own."""
    endpoint = request.getfixturevalue("etcd").endpoint if request.param == "etcd" else ""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        store: Store = EtcdStore([endpoint], **PATIENT) if endpoint else MemoryStore()
        try:
            yield store
        finally:
            await store.close()

    async def body(test: Callable[[Store, str], Awaitable[None]]) -> None:
        async with opened() as store:
            await test(store, f"/test/{uuid.uuid4().hex}/")

    return lambda test: run(body(test))


async def take(store: Store, prefix: str, start: int, count: int) -> list[Change]:
    """The first ``count`` changes."""
    taken: list[Change] = []
    async with aclosing(store.watch(prefix, start_revision=start)) as batches:
        async for revision, changes in batches:
            assert changes[-1].kv.mod_revision == revision
            taken.extend(changes)
            if len(taken) >= count:
                break
    return taken


def test_a_key_that_is_absent_is_none(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        assert await store.get(prefix + "a") is None
        assert (await store.list(prefix)).items == ()

    check(body)


def test_put_tells_the_revision_that_get_sees(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        first = await store.put(prefix + "a", b"1")
        second = await store.put(prefix + "a", b"2")
        kv = await store.get(prefix + "a")
        assert kv is not None
        assert (kv.key, kv.value, kv.lease) == (prefix + "a", b"2", 0)
        assert (kv.create_revision, kv.mod_revision) == (first, second)
        assert second > first

    check(body)


def test_list_is_in_key_order_and_of_one_revision(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        for name in ("b", "a", "c"):
            await store.put(prefix + name, name.encode())
        last = await store.put(prefix[:-1] + "0", b"a neighbour of the prefix")
        snapshot = await store.list(prefix)
        assert [kv.key for kv in snapshot.items] == [prefix + name for name in "abc"]
        assert snapshot.revision >= last

    check(body)


def test_delete_takes_one_key_or_a_prefix(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        for name in ("a", "a/1", "a/2", "b"):
            await store.put(prefix + name, b"")
        await store.delete(prefix + "a")
        assert [kv.key for kv in (await store.list(prefix)).items] == [prefix + n for n in ("a/1", "a/2", "b")]
        await store.delete(prefix + "a", prefix=True)
        assert [kv.key for kv in (await store.list(prefix)).items] == [prefix + "b"]
        await store.delete(prefix + "never was")

    check(body)


@pytest.mark.parametrize("field", list(Field))
def test_a_transaction_applies_all_or_nothing(check, field: Field) -> None:
    async def body(store: Store, prefix: str) -> None:
        key = prefix + "a"
        await store.put(key, b"0")
        await store.put(key, b"1")
        kv = await store.get(key)
        assert kv is not None
        right = {
            Field.VALUE: b"1",
            Field.CREATE_REVISION: kv.create_revision,
            Field.MOD_REVISION: kv.mod_revision,
        }
        wrong = {Field.VALUE: b"0", Field.CREATE_REVISION: kv.mod_revision, Field.MOD_REVISION: 1}
        ops = [Put(prefix + "b", b"new"), Delete(key)]
        refused = await store.txn([absent(prefix + "b"), Compare(key, field, wrong[field])], ops)
        assert not refused.succeeded
        assert [kv.value for kv in (await store.list(prefix)).items] == [b"1"]
        applied = await store.txn([absent(prefix + "b"), Compare(key, field, right[field])], ops)
        assert applied.succeeded
        snapshot = await store.list(prefix)
        assert [(kv.key, kv.mod_revision) for kv in snapshot.items] == [(prefix + "b", applied.revision)]

    check(body)


def test_of_many_who_create_one_wins(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        results = await asyncio.gather(
            *(store.txn([absent(prefix + "a")], [Put(prefix + "a", b"%d" % i)]) for i in range(20))
        )
        winners = [i for i, result in enumerate(results) if result.succeeded]
        kv = await store.get(prefix + "a")
        assert kv is not None
        assert [kv.value] == [b"%d" % i for i in winners]

    check(body)


def test_a_watch_tells_history_and_news_once_and_in_order(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        start = await store.put(prefix + "a", b"0")
        await store.put(prefix[:-1] + "0", b"not of the prefix")
        watching = asyncio.create_task(take(store, prefix, start, 6))
        await store.put(prefix + "a", b"1")
        await store.txn([], [Put(prefix + "b", b"2"), Put(prefix + "c", b"3")])
        await store.delete(prefix, prefix=True)
        told = await watching
        assert [(c.kv.key[len(prefix) :], c.kv.value, c.deleted) for c in told[:4]] == [
            ("a", b"0", False),
            ("a", b"1", False),
            ("b", b"2", False),
            ("c", b"3", False),
        ]
        assert {(c.kv.key[len(prefix) :], c.deleted) for c in told[4:]} <= {(n, True) for n in "abc"}
        revisions = [c.kv.mod_revision for c in told]
        assert revisions == sorted(revisions)
        assert revisions[0] == start

    check(body)


def test_a_watch_may_begin_in_the_future(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        now = await store.put(prefix + "a", b"0")
        watching = asyncio.create_task(take(store, prefix, now + 1, 1))
        await store.put(prefix + "a", b"1")
        assert [c.kv.value for c in await watching] == [b"1"]

    check(body)


def test_many_changes_at_once_come_whole(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        start = (await store.list(prefix)).revision + 1
        big = b"x" * 20_000
        for i in range(3):  # 2 MB: more than etcd puts into one message
            await store.txn([], [Put(f"{prefix}{i}-{j:03}", big) for j in range(35)])
        told = await take(store, prefix, start, 105)
        assert [c.kv.key for c in told] == [f"{prefix}{i}-{j:03}" for i in range(3) for j in range(35)]

    check(body)


def test_a_watch_of_lost_history_says_so(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        start = await store.put(prefix + "a", b"0")
        await store.put(prefix + "a", b"1")
        await compact(store)
        with pytest.raises(CompactedError):
            await take(store, prefix, start, 1)
        snapshot = await store.list(prefix)
        watching = asyncio.create_task(take(store, prefix, snapshot.revision + 1, 1))
        await store.put(prefix + "a", b"2")
        assert [c.kv.value for c in await watching] == [b"2"]

    check(body)


def test_a_lease_takes_its_keys_along(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        lease = await store.grant(60)
        await store.put(prefix + "a", b"", lease=lease)
        start = await store.put(prefix + "b", b"")
        kv = await store.get(prefix + "a")
        assert kv is not None
        assert kv.lease == lease
        assert await store.keep_alive(lease, timeout=5.0) == 60
        await store.revoke(lease)
        assert [(c.kv.key, c.deleted) for c in await take(store, prefix, start + 1, 1)] == [(prefix + "a", True)]
        assert await store.keep_alive(lease, timeout=5.0) == 0
        await store.revoke(lease)

    check(body)


def test_nothing_is_written_on_a_lease_that_is_gone(check) -> None:
    async def body(store: Store, prefix: str) -> None:
        lease = await store.grant(60)
        await store.revoke(lease)
        with pytest.raises(LeaseLostError):
            await store.put(prefix + "a", b"", lease=lease)
        with pytest.raises(LeaseLostError):
            await store.txn([absent(prefix + "a")], [Put(prefix + "a", b"", lease)])
        assert await store.get(prefix + "a") is None

    check(body)


def test_one_process_may_have_many_watches(etcd: Member) -> None:
    async def body() -> None:
        stores = [EtcdStore([etcd.endpoint]) for _ in range(50)]
        start = (await stores[0].list("/many/")).revision + 1
        watching = [asyncio.create_task(take(store, "/many/", start, 1)) for store in stores]
        await stores[0].put("/many/a", b"1")
        assert {told[0].kv.value for told in await asyncio.gather(*watching)} == {b"1"}
        for store in stores:
            await store.close()

    run(body())


def test_an_alternative_is_tried_in_the_same_step(check) -> None:
    async def test(store: Store, prefix: str) -> None:
        async def attempt() -> TxnResult:
            agreed = [Compare(prefix + "spec", Field.VALUE, b"mine")]
            first = Txn([absent(prefix + "spec")], [Put(prefix + "spec", b"mine"), Put(prefix + "a", b"1")])
            return await store.txn(agreed, [Put(prefix + "a", b"2")], otherwise=first)

        result = await attempt()
        assert (result.succeeded, result.otherwise) == (False, True)
        assert (await store.get(prefix + "a")).value == b"1"
        result = await attempt()
        assert (result.succeeded, result.otherwise) == (True, False)
        assert (await store.get(prefix + "a")).value == b"2"
        await store.put(prefix + "spec", b"theirs")
        result = await attempt()
        assert (result.succeeded, result.otherwise) == (False, False)
        assert (await store.get(prefix + "a")).value == b"2"

    check(test)


def test_children_are_the_names_directly_below_a_prefix(check) -> None:
    async def test(store: Store, prefix: str) -> None:
        assert await store.children(prefix) == ()
        for key in ("b/x", "b/y/z", "a%2Fc/x", "b-1/x", "b0/x", "b", "z"):
            await store.put(prefix + key, b"")
        assert set(await store.children(prefix)) == {"a%2Fc", "b", "b-1", "b0", "z"}
        assert len(await store.children(prefix)) == 5

    check(test)
