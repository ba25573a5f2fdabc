"""An etcd's own members: taken in as learners, promoted, let go; and clients that learn where they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.errors import AmbiguousError, DeposedError, EtcdRefusedError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.methods import STATUS
from elaunch.rendezvous.store import ClusterMember, Health
from tests.etcd.running import opened, run
from tests.etcd.servers import NO_FSYNC, Member, free_port

pytestmark = pytest.mark.slow

BOUND = 60.0  # seconds for anything to happen
PATIENT = {"call_timeout": 10.0, "deadline": BOUND}


class Growing:
    """A cluster that starts with one member. Without a word from each other for ``election`` ms they elect a leader."""

    def __init__(self, directory: Path, election: int = 500) -> None:
        self.directory = directory
        self.election = election
        self.members: list[Member] = []
        self.peers: list[str] = []

    def member(self) -> Member:
        """One more member, not started yet; it joins those that were made before it."""
        number, client = len(self.members), free_port()
        peer, url = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{client}"
        self.peers.append(peer)
        cluster = ",".join(f"m{i}={peer}" for i, peer in enumerate(self.peers))
        arguments = [
            *("--data-dir", f"data{number}", "--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster),
            *("--initial-cluster-state", "existing" if number else "new"),
            *("--heartbeat-interval", "50", "--election-timeout", str(self.election), NO_FSYNC),
        ]
        self.members.append(Member(self.directory, f"m{number}", f"127.0.0.1:{client}", arguments))
        return self.members[-1]


@pytest.fixture
def growing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Growing]:
    cluster = Growing(tmp_path, *([request.param] if hasattr(request, "param") else []))
    try:
        cluster.member().start()
        yield cluster
    finally:
        for member in cluster.members:
            member.kill()


async def eventually(attempt) -> None:
    """``attempt`` until etcd does not refuse it any more."""
    deadline = time.monotonic() + BOUND
    while True:
        try:
            return await attempt()
        except (EtcdRefusedError, AmbiguousError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def let_go(store: EtcdStore, member: int) -> None:
    """Asked once more after an answer that was lost: etcd refuses to remove who is gone."""
    if any(one.id == member for one in await store.members()):
        await store.remove(member)


async def led(store: EtcdStore, endpoint: str) -> Health:
    """What the member there says once it follows a leader."""
    deadline = time.monotonic() + BOUND
    while (health := await store.health(endpoint, timeout=5.0)) is None or not health.leader:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    return health


async def grown(store: EtcdStore, growing: Growing) -> ClusterMember:
    """One more voter."""
    joining = growing.member()
    await eventually(lambda: store.add_learner(growing.peers[-1]))
    joining.spawn()
    await asyncio.to_thread(joining.wait_listening)
    learner = next(one for one in await store.members() if one.peers == (growing.peers[-1],))
    await eventually(lambda: store.promote(learner.id))
    return learner


def test_a_learner_becomes_a_voter(growing: Growing) -> None:
    async def body() -> None:
        first = growing.members[0].endpoint
        async with opened(first, **PATIENT) as store:
            (alone,) = await store.members()
            assert (alone.peers, alone.endpoints, alone.learner) == ((growing.peers[0],), (first,), False)
            second = growing.member()
            await store.add_learner(growing.peers[1])
            (joining,) = [one for one in await store.members() if one.id != alone.id]
            assert (joining.name, joining.endpoints, joining.learner) == ("", (), True)
            assert await store.health(second.endpoint, timeout=1.0) is None
            with pytest.raises(EtcdRefusedError, match="in sync with leader"):
                await store.promote(joining.id)
            second.spawn()
            await asyncio.to_thread(second.wait_listening)
            await eventually(lambda: store.promote(joining.id))
            health = await led(store, second.endpoint)  # it serves: it has told the others its name
            members = {one.id: one for one in await store.members()}
            assert (members[joining.id].name, members[joining.id].learner) == ("m1", False)
            assert health.member == joining.id
            assert health.leader in members

    run(body(), seconds=180.0)


def test_what_is_not_safe_is_refused(growing: Growing) -> None:
    """Though etcd's code for it is that of a lost connection, after which nobody knows what came of it."""

    async def body() -> None:
        async with opened(growing.members[0].endpoint, **PATIENT) as store:
            await grown(store, growing)
            with pytest.raises(EtcdRefusedError, match="unhealthy cluster"):  # the newcomer is too new
                await store.add_learner("http://127.0.0.1:1")

    run(body(), seconds=180.0)


def test_a_change_that_one_has_no_right_to_any_more_is_not_sent(growing: Growing) -> None:
    """A leader that is frozen after it was told that it leads: etcd itself would take the change."""

    async def body() -> None:
        async with opened(growing.members[0].endpoint, **PATIENT) as store:
            with pytest.raises(DeposedError):
                await store.add_learner("http://127.0.0.1:1", left=lambda: 0.0)
            assert len(await store.members()) == 1

    run(body(), seconds=180.0)


def test_a_client_goes_on_at_the_members_that_it_has_learnt(growing: Growing) -> None:
    async def body() -> None:
        first = growing.members[0].endpoint
        async with opened(first, **PATIENT) as store:
            await grown(store, growing)
            alone = next(one for one in await store.members() if one.endpoints == (first,))
            changes = store.watch("/k", start_revision=1)
            await store.put("/k", b"before")
            assert [change.kv.value for change in (await anext(changes))[1]] == [b"before"]
            store.use([member.endpoint for member in growing.members])
            await eventually(lambda: let_go(store, alone.id))
            store.use([growing.members[1].endpoint])
            growing.members[0].kill()
            assert store.endpoints == (growing.members[1].endpoint,)
            await store.put("/k", b"after")
            assert [change.kv.value for change in (await anext(changes))[1]] == [b"after"]
            await changes.aclose()

    run(body(), seconds=180.0)


@pytest.mark.parametrize("growing", [1500], indirect=True)  # none may follow from a slow machine either
def test_no_election_follows_where_a_leader_hands_over_before_it_is_let_go(growing: Growing) -> None:
    async def term(store: EtcdStore) -> int:
        return int((await store._transport.call(STATUS, pb.StatusRequest())).raftTerm)

    async def body() -> None:
        first = growing.members[0].endpoint
        async with opened(first, **PATIENT) as old, opened(first, **PATIENT) as new:
            heir = await grown(old, growing)
            second = growing.members[1].endpoint
            new.use([second])
            leader = next(one for one in await old.members() if one.endpoints == (first,))
            assert not await old.hand_over(second, heir.id, timeout=2.0)  # it does not lead
            assert not await old.hand_over(first, 1, timeout=2.0)  # nobody
            assert await old.hand_over(first, heir.id, timeout=20.0)
            reached = await term(new)
            await eventually(lambda: let_go(new, leader.id))
            await new.put("/k", b"")
            assert await term(new) == reached
            assert (await led(new, second)).leader == heir.id

    run(body(), seconds=180.0)


def test_a_member_may_move_where_others_reach_it(growing: Growing) -> None:
    async def body() -> None:
        async with opened(growing.members[0].endpoint, **PATIENT) as store:
            (alone,) = await store.members()
            await store.move_peer(alone.id, "http://127.0.0.1:1")
            assert (await store.members())[0].peers == ("http://127.0.0.1:1",)
            with pytest.raises(EtcdRefusedError, match="not found"):
                await store.remove(1)

    run(body())
