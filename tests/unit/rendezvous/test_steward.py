"""The leader's care for the members of an etcd, on a store that only pretends to have any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any

import pytest

from elaunch.clock import SystemClock
from elaunch.errors import DeposedError, EtcdRefusedError
from elaunch.rendezvous import steward
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, decode, encode
from elaunch.rendezvous.steward import Steward
from elaunch.rendezvous.store import ClusterMember, Compare, Field, Health, Left, Op, Txn, TxnResult, always
from elaunch.rendezvous.trio_view import NAME, Berth, MemberList
from tests.etcd.memory_store import MemoryStore

KEYS = JobKeys("job")
GUARD = Compare(KEYS.leader, Field.VALUE, b"me")


def peer(number: int) -> str:
    return f"http://10.0.0.{number}:1"


def endpoint(number: int) -> str:
    return f"10.0.0.{number}:2379"


class Members(MemoryStore):
    """As many members as there are numbers; the node of each keeps it. Every change is noted."""

    def __init__(self, *numbers: int, name: str = NAME) -> None:
        super().__init__()
        self.name = name
        self.numbers = set(numbers)
        self.learners: set[int] = set()
        self.refusing = 0
        self.leading = 1
        self.changes: list[str] = []
        self.turns = 0
        self.looked = asyncio.Event()  # ten times

    async def populate(self, *nodes: int) -> None:
        await self.put(KEYS.leader, b"me")
        for number in nodes:
            node = Node(f"n{number}", "host", f"10.0.0.{number}", 1, 1, "")
            await self.put(KEYS.node(node.node_id), encode(node))
        for number in self.numbers:
            await self.put(KEYS.berth(f"n{number}"), encode(berth(number)))

    async def members(self) -> tuple[ClusterMember, ...]:
        self.turns += 1
        if self.turns == 10:
            self.looked.set()
        return tuple(
            ClusterMember(n, f"{self.name}{n}", (peer(n),), (endpoint(n),), n in self.learners)
            for n in sorted(self.numbers | self.learners)
        )

    async def health(self, endpoint: str, *, timeout: float) -> Health | None:
        number = int(endpoint.split(":")[0].rpartition(".")[2])
        return Health(1, number, self.leading, "3.5.1")

    async def add_learner(self, peer: str, *, left: Left = always) -> None:
        self.right(left)
        if self.refusing:
            self.refusing -= 1
            raise EtcdRefusedError("unhealthy cluster")
        self.changes.append(f"add {peer}")
        self.learners.add(int(peer.split(":")[1].rpartition(".")[2]))

    async def promote(self, member: int, *, left: Left = always) -> None:
        self.right(left)
        self.changes.append(f"promote {member}")
        self.learners.remove(member)
        self.numbers.add(member)

    async def remove(self, member: int, *, left: Left = always) -> None:
        self.right(left)
        self.changes.append(f"remove {member}")
        self.numbers.discard(member)

    async def hand_over(self, endpoint: str, member: int, *, timeout: float) -> bool:
        self.changes.append(f"hand over to {member} at {endpoint}")
        return False

    def right(self, left: Left) -> None:
        if left() <= 0:
            raise DeposedError("the right has ended")

    async def move_peer(self, member: int, peer: str) -> None:
        raise AssertionError

    async def listed(self) -> MemberList | None:
        found = await self.get(KEYS.members)
        return None if found is None else decode(MemberList, found.value)


def berth(number: int) -> Berth:
    return Berth(f"n{number}", f"10.0.0.{number}", peer(number), endpoint(number))


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("BUSY", "IDLE"):
        monkeypatch.setattr(steward, pause, 0.001)


def attended(store: Members, play: Coroutine[Any, Any, None]) -> None:
    """Run ``play`` while a steward is at work."""

    async def body() -> None:
        task = asyncio.create_task(Steward(store, KEYS, GUARD, SystemClock()).run())
        try:
            await asyncio.wait_for(play, 10.0)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(body())


async def told(store: Members, wanted: Callable[[MemberList], bool]) -> None:
    """Until the nodes have been told so."""
    async with aclosing(store.watch(KEYS.members, start_revision=1)) as batches:
        async for _, changes in batches:
            if any(wanted(decode(MemberList, change.kv.value)) for change in changes):
                return


def test_two_nodes_are_invited_and_their_members_taken_in() -> None:
    store = Members(1)
    store.refusing = 3  # etcd wants some time between two changes

    async def play() -> None:
        await store.populate(1, 2, 3)
        for number in (2, 3):
            await told(store, lambda listed, number=number: listed.invited == f"n{number}")
            await store.put(KEYS.berth(f"n{number}"), encode(berth(number)))
        whole = MemberList(tuple(map(endpoint, (1, 2, 3))), tuple(map(peer, (1, 2, 3))))
        await told(store, lambda listed: listed == whole)

    attended(store, play())
    assert store.changes == [f"add {peer(2)}", "promote 2", f"add {peer(3)}", "promote 3"]


def test_a_new_leader_stands_by_the_invitation_of_the_last() -> None:
    store = Members(1)

    async def play() -> None:
        await store.populate(1, 2, 3)
        await store.put(KEYS.berth("n2"), encode(berth(2)))
        store.refusing = 3
        await told(store, lambda listed: peer(2) in listed.peers)

    attended(store, play())
    assert store.changes[0] == f"add {peer(2)}"


@pytest.mark.parametrize(
    ("leading", "changes"),
    [(1, [f"hand over to 2 at {endpoint(1)}", "remove 1"]), (3, ["remove 1"])],
)
def test_a_member_that_leads_the_others_is_let_go_only_after_a_try_to_make_another_one_lead(
    leading: int, changes: list[str]
) -> None:
    store = Members(1, 2, 3, 4)
    store.leading = leading

    async def play() -> None:
        await store.populate(2, 3, 4)
        await store.delete(KEYS.berth("n1"))
        await told(store, lambda listed: peer(1) not in listed.peers)

    attended(store, play())
    assert store.changes == changes


def test_who_does_not_lead_any_more_changes_nothing() -> None:
    store = Members(1)

    async def play() -> None:
        await store.populate(1, 2, 3)
        await store.put(KEYS.leader, b"another")
        await store.put(KEYS.berth("n2"), encode(berth(2)))
        await store.looked.wait()

    attended(store, play())
    assert store.changes == []
    assert asyncio.run(store.listed()) is None


def test_a_users_own_etcd_is_left_alone() -> None:
    store = Members(1, 2, 3, 4, name="their-")

    async def play() -> None:
        await store.populate(1)
        await store.looked.wait()

    attended(store, play())
    assert store.changes == []
    assert asyncio.run(store.listed()) is None


class Asleep(Members):
    """Whose leader is frozen for a minute at its fourth look; the answer of one member is lost then."""

    def __init__(self) -> None:
        super().__init__(1, 2, 3)
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    boottime = wall = monotonic

    async def health(self, endpoint: str, *, timeout: float) -> Health | None:
        if self.turns == 4 and endpoint == THIRD:
            self.now += 60.0
            return None
        return await super().health(endpoint, timeout=timeout)


THIRD = endpoint(3)


def test_the_time_for_which_the_leader_was_frozen_is_nobody_s_silence() -> None:
    store = Asleep()

    async def play() -> None:
        await store.populate(1, 2)
        await store.delete(KEYS.berth("n3"))
        task = asyncio.create_task(Steward(store, KEYS, GUARD, store).run())
        await asyncio.wait_for(store.looked.wait(), 10.0)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(play())
    assert store.now == 160.0
    assert store.changes == []


class Frozen(Members):
    """Whose leader is frozen, and deposed, between the answer to its last question and what it does upon it."""

    left = 5.0

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        answer = await super().txn(compares, ops, otherwise=otherwise)
        if not ops:
            self.left = -60.0
            await self.put(KEYS.leader, b"another")
        return answer


def test_a_leader_that_wakes_up_after_its_last_question_changes_nothing() -> None:
    store = Frozen(1)

    async def play() -> None:
        await store.populate(1, 2, 3)
        await store.put(KEYS.berth("n2"), encode(berth(2)))
        task = asyncio.create_task(Steward(store, KEYS, GUARD, SystemClock(), lambda: store.left).run())
        await asyncio.wait_for(store.looked.wait(), 10.0)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(play())
    assert store.left < 0
    assert store.changes == []
