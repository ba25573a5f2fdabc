"""A second member of an embedded etcd, with its keeper: offered, started, promoted, let go; with and without TLS."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elaunch.errors import AmbiguousError, EtcdRefusedError
from elaunch.rendezvous import embedded
from elaunch.rendezvous.berths import adopt_embedded, join_embedded, offer
from elaunch.rendezvous.embedded import ensure_embedded
from elaunch.rendezvous.endpoints import credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.handshake import names
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import encode
from elaunch.rendezvous.tls import NAME, Tls
from elaunch.rendezvous.trio_view import MemberList, ours
from tests.etcd.running import opened, run
from tests.etcd.servers import free_port, make_certificates

FIRST, SECOND = "127.0.0.21", "127.0.0.22"
KEYS = JobKeys("spread")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No keeper of a test outlives it, nor its etcd."""
    before = set(psutil.Process().children(recursive=True))
    yield
    mine = set(psutil.Process().children(recursive=True)) - before
    _, left = psutil.wait_procs(mine, timeout=60.0)
    for process in left:
        process.kill()
    assert not left


async def eventually(attempt) -> None:
    async def again() -> None:
        while True:
            try:
                return await attempt()
            except (EtcdRefusedError, AmbiguousError):
                await asyncio.sleep(0.1)

    await asyncio.wait_for(again(), 60.0)


async def let_go(store: EtcdStore, member: int) -> None:
    """Asked once more after an answer that was lost: etcd refuses to remove who is gone."""
    if any(one.id == member for one in await store.members()):
        await store.remove(member)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_a_second_member_comes_and_goes(tmp_path: Path, secure: bool) -> None:
    made = make_certificates(tmp_path / "tls", NAME, addresses=[FIRST, SECOND]) if secure else None
    tls = Tls(made.cert, made.key, made.ca) if made else None
    port = free_port()

    async def body() -> None:
        first = await ensure_embedded(
            f"{FIRST}:{port}", job="spread", state_dir=tmp_path / "1", several_hosts=True, tls=tls, address=FIRST
        )
        assert first.endpoints == (f"{FIRST}:{port}",)
        berth = offer("n2", SECOND, port, tls)
        assert (berth.endpoint, berth.refusal) == (f"{SECOND}:{port}", "")
        assert berth.peer.startswith("https://" if secure else "http://")
        async with opened(*first.endpoints, credentials=credentials(tls), call_timeout=10.0, deadline=60.0) as store:
            assert ours(await store.members())
            await store.put("/elaunch/spread/x", b"known")
            await eventually(lambda: store.add_learner(berth.peer))
            listed = MemberList(first.endpoints, (first.peer, berth.peer))
            second = await join_embedded("spread", berth, listed, state_dir=tmp_path / "2", tls=tls)
            assert second.endpoints == (f"{SECOND}:{port}",)
            learner = next(one for one in await store.members() if one.peers == (berth.peer,))
            await eventually(lambda: store.promote(learner.id))
            listed = MemberList((*first.endpoints, *second.endpoints), listed.peers)
            await store.put(KEYS.node("n"), b"{}")
            await store.put(KEYS.members, encode(listed))
            async with opened(
                *second.endpoints, credentials=credentials(tls), call_timeout=10.0, deadline=60.0
            ) as other:
                found = await other.get("/elaunch/spread/x")
                assert found is not None
                assert found.value == b"known"

            adopted = await adopt_embedded("spread", SECOND, port)  # as the next agent of that host would
            assert adopted is not None
            assert (adopted.endpoints, adopted.peer) == (second.endpoints, second.peer)
            assert await adopt_embedded("another", SECOND, port) is None

            await eventually(lambda: let_go(store, learner.id))
            await store.put(KEYS.members, encode(MemberList(first.endpoints, (first.peer,))))
            await asyncio.wait_for(second.ended(), 60.0)  # though agents are connected, and the job has a node
            assert not (tmp_path / "2" / "data").exists()
            await store.delete(KEYS.node("n"))
        for one in (adopted, second, first):
            await one.release(60.0)

    run(body(), seconds=240.0)


def test_a_certificate_that_names_no_host_makes_no_member(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, NAME, addresses=[FIRST])
    tls = Tls(made.cert, made.key, made.ca)
    assert names(tls, FIRST)
    assert not names(tls, SECOND)
    assert f"does not name {SECOND}" in offer("n2", SECOND, free_port(), tls).refusal


def test_a_port_that_is_taken_is_not_offered() -> None:
    with socket.socket() as other:
        other.bind((SECOND, 0))
        other.listen()
        port = other.getsockname()[1]
        berth = offer("n2", SECOND, port)
    assert berth.endpoint.startswith(f"{SECOND}:")
    assert berth.endpoint != f"{SECOND}:{port}"


@pytest.mark.slow
def test_a_first_member_that_is_back_finds_the_others(
    tmp_path: Path, own_etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own data are of no use without them, and a new etcd would split the job."""
    monkeypatch.setattr(embedded, "_PROBE", 20.0)
    directory, port = tmp_path / "1", free_port()
    (directory / "data").mkdir(parents=True)

    async def start() -> tuple[str, ...]:
        async with opened(own_etcd.endpoint) as store:
            health = await store.health(own_etcd.endpoint, timeout=20.0)
        assert health is not None
        (directory / "members.json").write_text(
            f'{{"cluster": "{health.cluster + stranger:x}", "endpoints": ["{FIRST}:{port}", "{own_etcd.endpoint}"]}}'
        )
        found = await ensure_embedded(
            f"{FIRST}:{port}", job="spread", state_dir=directory, several_hosts=True, address=FIRST
        )
        await found.release(60.0)
        assert ("none of the job's former etcd members" in found.notice) == bool(stranger)
        return found.endpoints

    stranger = 0
    assert run(start()) == (own_etcd.endpoint,)
    stranger = 1  # another cluster has that port now
    assert run(start()) == (f"{FIRST}:{port}",)
    assert [path.name.split("-")[0] for path in directory.glob("data*")] == ["data.outlived"]
    assert os.listdir(next(directory.glob("data.outlived-*"))) == []


@pytest.mark.slow
def test_an_etcd_on_loopback_only_has_no_members_on_other_hosts(tmp_path: Path) -> None:
    async def body() -> None:
        port = free_port()
        etcd = await ensure_embedded(
            f"localhost:{port}", job="spread", state_dir=tmp_path, several_hosts=True, address="192.0.2.1"
        )
        assert (etcd.endpoints, etcd.peer) == ((f"127.0.0.1:{port}",), "")
        async with opened(*etcd.endpoints) as store:
            assert not ours(await store.members())
        await etcd.release(60.0)

    run(body())
