"""A leader's term against a store in memory: who attaches when, and what a gap in the watch does not lose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest
from job_makers import make_node

from elaunch.clock import SystemClock
from elaunch.controller.commands import Abort
from elaunch.controller.job import NodeView
from elaunch.controller.leader import Term
from elaunch.controller.node_status import Answer, NodeStatus, RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.streams import Outbox
from elaunch.errors import EtcdLostError, LeaseLostError
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Phase, decode, encode
from elaunch.rendezvous.state import RankExit, State
from elaunch.rendezvous.store import Compare, Op, Put, Snapshot, Txn, TxnResult
from tests.etcd.memory_store import MemoryStore

KEYS = JobKeys("job")


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test, 10)

    asyncio.run(bounded())


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until ``condition`` holds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing came of a thousand turns")


async def lead(store: MemoryStore, left: Callable[[], float] = lambda: 1.0) -> Term:
    """A term of node 0, not begun yet."""
    epoch = await store.put(KEYS.leader, b"n0")
    return Term(store, KEYS, Leadership(KEYS.leader, epoch), Policy(1, 4, 0), SystemClock(), "n0", left=left)


async def ended(outbox: Outbox) -> str:
    while await outbox.next() is not None:
        pass
    return outbox.closed


class AwayStore(MemoryStore):
    """Lists nothing while it is away: it is lost once ``give_up`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.give_up = asyncio.Event()

    async def list(self, prefix: str, *, keys_only: bool = False) -> Snapshot:
        await self.give_up.wait()
        raise EtcdLostError("etcd did not answer")


def test_a_stream_that_came_while_etcd_was_away_ends_with_the_term() -> None:
    """Else its node would wait for ever for a term that never led."""

    async def test() -> None:
        store = AwayStore()
        term = await lead(store)
        running = asyncio.create_task(term.run())
        outbox = term.attach("n1")
        store.give_up.set()
        with pytest.raises(EtcdLostError):
            await running
        assert await ended(outbox)

    run(test())


def test_a_stream_that_was_admitted_before_the_end_of_the_term_and_attaches_after_it_ends() -> None:
    async def test() -> None:
        store = AwayStore()
        term = await lead(store)
        store.give_up.set()
        with pytest.raises(EtcdLostError):
            await term.run()
        assert await ended(term.attach("n1"))

    run(test())


class GapStore(MemoryStore):
    """Loses its history, and one node meanwhile, before the leader has looked at what came before."""

    async def lose(self, *, joined: int, lost: int) -> None:
        await self.put(KEYS.node(f"n{joined}"), encode(make_node(joined)))
        await asyncio.sleep(0)
        await self.delete(KEYS.node(f"n{lost}"))
        await self.put(KEYS.state, b"")
        self.compact()


def test_a_node_that_joins_and_is_lost_in_a_gap_of_the_watch_is_no_member() -> None:
    async def test() -> None:
        store = GapStore()
        term = await lead(store)
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        running = asyncio.create_task(term.run())
        await turns_until(lambda: "n1" in term.job.nodes)
        await store.lose(joined=2, lost=2)
        await store.put(KEYS.node("n3"), encode(make_node(3)))
        await turns_until(lambda: "n3" in term.job.nodes)
        assert term.job.nodes.keys() == {"n1", "n3"}
        running.cancel()
        await asyncio.wait({running})

    run(test())


def test_a_status_from_before_the_node_is_seen_counts_once_it_is() -> None:
    async def test() -> None:
        store = MemoryStore()
        term = await lead(store)
        running = asyncio.create_task(term.run())
        term.attach("n1")
        status = NodeStatus("n1", store_port=7)
        term.receive(status)
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        view = NodeView(replace(make_node(1), joined=3), status)
        await turns_until(lambda: term.job.nodes.get("n1") == view)
        running.cancel()
        await asyncio.wait({running})

    run(test())


class Lease:
    """What is left of a leader's lease, in seconds."""

    def __init__(self) -> None:
        self.left = 1.0

    def __call__(self) -> float:
        return self.left


def test_a_leader_that_wakes_without_a_lease_neither_writes_nor_commands() -> None:
    """Etcd would let it write: nobody else leads yet."""

    async def test() -> None:
        store, lease = MemoryStore(), Lease()
        term = await lead(store, lease)
        running = asyncio.create_task(term.run())
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        await turns_until(lambda: "n1" in term.job.nodes)
        outbox = term.attach("n1")
        before = (await store.list(KEYS.prefix)).revision
        lease.left = -0.1
        term.receive(NodeStatus("n1", store_port=7))
        with pytest.raises(LeaseLostError):
            await running
        assert (await store.list(KEYS.prefix)).revision == before
        assert await outbox.next() is None, "it was about to be told what the job waits for"
        assert not term.holds

    run(test())


def test_a_term_retires_in_a_quiet_moment_only() -> None:
    async def test() -> None:
        store = MemoryStore()
        term = await lead(store)
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        running = asyncio.create_task(term.run())
        await turns_until(lambda: "n1" in term.job.nodes)
        term.attach("n1")
        for number in range(2, 5):
            await store.put(KEYS.node(f"n{number}"), encode(make_node(number)))
            term.receive(NodeStatus(f"n{number}", store_port=7))
        term.receive(NodeStatus("n1", store_port=7))
        await turns_until(lambda: term.job.phase is Phase.STARTING)
        term.retire()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not running.done(), "a generation is starting"
        for number in range(1, 5):
            term.receive(NodeStatus(f"n{number}", 1, RunPhase.RUNNING, store_port=7))
        await running
        assert term.job.phase is Phase.RUNNING
        stated = await store.get(KEYS.state)
        assert stated is not None
        assert decode(State, stated.value).phase is Phase.RUNNING

    run(test())


class SlowStore(MemoryStore):
    """Keeps whoever writes what became of a command waiting, once ``slow`` is set."""

    slow = False

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        if self.slow and any(isinstance(op, Put) and op.key.startswith(KEYS.commands) for op in ops):
            await asyncio.Event().wait()
        return await super().txn(compares, ops, otherwise=otherwise)


def test_an_abort_does_not_wait_for_an_etcd_that_does_not_take_an_answer() -> None:
    async def test() -> None:
        store = SlowStore()
        term = await lead(store)
        for number in range(1, 5):
            await store.put(KEYS.node(f"n{number}"), encode(make_node(number)))
        running = asyncio.create_task(term.run())
        await turns_until(lambda: len(term.job.nodes) == 4)
        outbox = term.attach("n1")
        for number in range(1, 5):
            term.receive(NodeStatus(f"n{number}", store_port=7))
        await turns_until(lambda: term.job.phase is Phase.STARTING)
        for number in range(1, 5):
            term.receive(NodeStatus(f"n{number}", 1, RunPhase.RUNNING, store_port=7))
        await turns_until(lambda: term.job.phase is Phase.RUNNING)
        asked = Operation("op1", "stacks", "ada@login1", 1.0, arguments={"rank": 0})
        await store.put(KEYS.command("op1"), encode(asked))
        node_id = term.job.members[0].node_id
        await turns_until(lambda: bool(term.job.answer_by))
        store.slow = True
        term.receive(NodeStatus(node_id, 1, RunPhase.RUNNING, store_port=7, answers=(Answer("op1", True, "stacks"),)))
        await turns_until(lambda: not term.job.answer_by)
        failed = RankExit(0, 0, 5, 1, 1.0)
        term.receive(NodeStatus(node_id, 1, RunPhase.FAILED, (failed,), store_port=7))
        while not isinstance(await outbox.next(), Abort):
            pass
        running.cancel()
        await asyncio.wait({running})

    run(test())


def test_a_key_that_no_agent_wrote_ends_no_leader() -> None:
    """Else each that is elected in its place would end of it as well."""

    async def test() -> None:
        store = MemoryStore()
        term = await lead(store)
        await store.put(KEYS.node("x1"), b"{}")
        running = asyncio.create_task(term.run())
        await store.put(KEYS.node("x2"), encode(replace(make_node(2), slots="many")))  # type: ignore[arg-type]
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        await turns_until(lambda: term.job.nodes.keys() == {"n1"})
        await store.delete(KEYS.node("x2"))
        await store.put(KEYS.node("n3"), encode(make_node(3)))
        await turns_until(lambda: term.job.nodes.keys() == {"n1", "n3"})
        running.cancel()
        await asyncio.wait({running})

    run(test())
