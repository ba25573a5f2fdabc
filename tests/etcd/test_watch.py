"""Watches over outages."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import aclosing, suppress

import pytest

from elaunch.errors import CompactedError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous import watch as watch_module
from elaunch.rendezvous.methods import COMPACT
from elaunch.rendezvous.verdict import progress_is_ordered
from tests.etcd.running import PATIENT, opened, run
from tests.etcd.servers import Member


@pytest.mark.slow
def test_a_watch_resumes_after_a_restart_of_etcd(own_etcd: Member) -> None:
    async def body() -> None:
        async with opened(own_etcd.endpoint) as store, opened(own_etcd.endpoint, **PATIENT) as writer:
            start = await writer.put("/w/0", b"0")
            async with aclosing(store.watch("/w/", start_revision=start)) as batches:
                told: list[bytes] = []
                for i in range(1, 4):
                    told += [change.kv.value for change in (await anext(batches))[1]]
                    own_etcd.kill()
                    await asyncio.to_thread(own_etcd.start)
                    await writer.put("/w/0", b"%d" % i)
                told += [change.kv.value for change in (await anext(batches))[1]]
            assert told == [b"0", b"1", b"2", b"3"]

    run(body(), seconds=180)


@pytest.mark.slow
def test_what_was_compacted_during_an_outage_is_told_as_lost(own_etcd: Member) -> None:
    async def body() -> None:
        async with opened(own_etcd.endpoint) as store, opened(own_etcd.endpoint, **PATIENT) as writer:
            start = await writer.put("/w/0", b"0")
            async with aclosing(store.watch("/w/", start_revision=start)) as batches:
                await anext(batches)
                own_etcd.freeze()
                waiting = asyncio.ensure_future(anext(batches))
                own_etcd.kill()
                await asyncio.sleep(0.1)  # the stream is lost at some time; the rest must not depend on when
                await asyncio.to_thread(own_etcd.start)
                # A new stream may be up already: then the news arrive, else their loss is told.
                last = await writer.put("/w/0", b"1")
                last = await writer.put("/w/0", b"2")
                await writer._transport.call(COMPACT, pb.CompactionRequest(revision=last, physical=True))
                try:
                    revision, _ = await waiting
                    assert revision <= last
                except CompactedError:
                    assert (await store.list("/w/")).items[0].value == b"2"

    run(body(), seconds=180)


@pytest.mark.slow
def test_an_etcd_that_was_made_anew_is_not_taken_for_the_old(own_etcd: Member) -> None:
    async def body() -> None:
        async with opened(own_etcd.endpoint) as store, opened(own_etcd.endpoint, **PATIENT) as writer:
            for i in range(5):
                start = await writer.put("/w/0", b"%d" % i)
            async with aclosing(store.watch("/w/", start_revision=start)) as batches:
                await anext(batches)
                waiting = asyncio.ensure_future(anext(batches))
                own_etcd.kill()
                shutil.rmtree(own_etcd.directory / "data")
                own_etcd.arguments += ["--initial-cluster-token", "another"]
                await asyncio.to_thread(own_etcd.start)
                with pytest.raises(CompactedError):
                    await waiting

    run(body(), seconds=180)


@pytest.mark.slow
def test_a_silent_watch_is_probed_and_loses_nothing(etcd: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "IDLE", 0.1)

    async def body() -> None:
        async with opened(etcd.endpoint) as store, opened(etcd.endpoint, **PATIENT) as writer:
            start = (await store.list("/silent/")).revision + 1
            told: list[bytes] = []
            async with aclosing(store.watch("/silent/", start_revision=start)) as batches:
                for i in range(5):
                    await writer.put("/elsewhere", b"")
                    reading = asyncio.ensure_future(anext(batches))
                    await asyncio.wait({reading}, timeout=0.25)  # long enough for a probe and its answer
                    await writer.put("/silent/a", b"%d" % i)
                    told += [change.kv.value for change in (await reading)[1]]
            assert told == [b"%d" % i for i in range(5)]

    run(body())


@pytest.mark.slow
def test_a_frozen_etcd_is_left_for_another(own_etcd: Member, etcd: Member) -> None:
    """Two members of no common cluster; but the first never answers, so the client cannot know."""

    async def body() -> None:
        own_etcd.freeze()
        async with opened(own_etcd.endpoint, etcd.endpoint) as store:
            await asyncio.wait_for(store.put("/frozen/a", b"1"), 20)
            kv = await store.get("/frozen/a")
            assert kv is not None
            async with aclosing(store.watch("/frozen/", start_revision=kv.mod_revision)) as batches:
                assert (await anext(batches))[1][0].kv.value == b"1"

    run(body())


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False], ids=["who waits for news", "who looks later"])
def test_a_watch_leaves_a_frozen_etcd_as_soon_as_a_call_does(own_etcd: Member, etcd: Member, waits: bool) -> None:
    """The stream itself stays open, and would be given up after the 13 s of gRPC's pings at the earliest."""

    async def body() -> None:
        async with (
            opened(own_etcd.endpoint, etcd.endpoint) as store,
            opened(etcd.endpoint) as there,
            aclosing(store.watch("/left/", start_revision=1)) as batches,
        ):
            reading = asyncio.ensure_future(anext(batches))
            await store.put("/left/here", b"1")
            assert (await reading)[1][0].kv.key == "/left/here"
            if waits:
                reading = asyncio.ensure_future(anext(batches))
                await asyncio.wait({reading}, timeout=0.2)
            own_etcd.freeze()
            began = time.monotonic()
            await there.put("/left/there", b"2")
            await store.put("/left/there", b"3")  # finds that the first is silent
            if not waits:
                reading = asyncio.ensure_future(anext(batches))
            with suppress(CompactedError):  # the other is of another cluster: it may have forgotten what is asked for
                assert (await asyncio.wait_for(reading, 12))[1][0].kv.key == "/left/there"
            assert time.monotonic() - began < 12

    run(body())


@pytest.mark.parametrize(
    ("version", "ordered"),
    [
        ("3.4.23", False),
        ("3.4.25", True),
        ("3.5.1", False),
        ("3.5.7", False),
        ("3.5.8", True),
        ("3.5.16", True),
        ("3.6.0-rc.1", True),
        ("3.3.10", False),
        ("4.0.0", True),
        ("not provided", False),
    ],
)
def test_progress_is_trusted_where_it_is_in_order(version: str, ordered: bool) -> None:
    assert progress_is_ordered(version) is ordered
