"""Operators' commands on a real etcd: durable, carried out once though the leader dies at the worst moment."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from elaunch.clock import SystemClock
from elaunch.controller.chronicle import follow_happenings, happenings
from elaunch.controller.commands import Abort, Leave, Signal, Start
from elaunch.controller.job import Answer, NodeStatus, Policy, RunPhase
from elaunch.controller.leader import Term
from elaunch.controller.ledger import KEPT_COMMANDS, KEPT_EVENTS
from elaunch.controller.operating import outcome, submit, verdict
from elaunch.controller.survey import job_names, overview
from elaunch.errors import CommandRefusedError, JobFinishedError, NoSuchJobError, UnansweredError
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Node, Phase, Reason, State, encode
from elaunch.rendezvous.store import Compare, Op, Put, Txn, TxnResult
from tests.etcd.running import run
from tests.etcd.servers import Member

WHO = "ada@login1"
HOSTILE = (
    b"",
    b"\xff",
    b"[]",
    b"{}",
    b"null",
    b"[" * 100_000,
    b'{"id": 5}',
    b'{"id": "bad7", "kind": "abort", "who": "x", "at": 1, "nodes": 5}',
    b'{"id": "bad8", "kind": ["abort"], "who": "x", "at": 1}',
    b'{"id": "bad9", "kind": "abort", "who": "x", "at": 1, "standing": []}',
    b'{"id": "bad10", "kind": "dance", "who": "x", "at": 1, "standing": "accepted"}',
    b'{"id": "bad11", "kind": "signal", "who": "x", "at": 1, "standing": "accepted", "nodes": ["n0"]}',
    b'{"id": "bad12", "kind": "stacks", "who": "x", "at": 1, "standing": "accepted", "answers": {"n0": 5}}',
    b'{"id": "bad13", "kind": "signal", "who": "x", "at": 1, "arguments": {"signal": true}}',
)
POLICY = Policy(1, 2, 1, last_call_timeout=0.05, settle=0.01, reattach=0.2)


class DiedError(Exception):
    """The leader is gone, in the middle of what it did."""


class MortalStore(EtcdStore):
    """Its leader dies when it writes to a key that begins so: ``before`` etcd hears of it, or ``after``."""

    def __init__(self, endpoint: str, prefix: str, when: str) -> None:
        super().__init__([endpoint])
        self._prefix = prefix
        self._when = when

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        fatal = any(isinstance(op, Put) and op.key.startswith(self._prefix) for op in ops)
        if fatal and self._when == "before":
            raise DiedError
        result = await super().txn(compares, ops, otherwise=otherwise)
        if fatal and self._when == "after":
            raise DiedError
        return result


@dataclass
class FakeAgent:
    """One node that does what it is told at once, under whoever leads."""

    node: Node
    status: NodeStatus
    starts: list[int] = field(default_factory=list)
    signals: dict[str, int] = field(default_factory=dict)
    silent: bool = False

    async def follow(self, term: Term) -> None:
        outbox = term.attach(self.node.node_id)
        term.receive(self.status)
        while (command := await outbox.next()) is not None:
            self._obey(command)
            term.receive(self.status)

    def _obey(self, command: object) -> None:
        if isinstance(command, Start) and command.generation > self.status.generation:
            self.starts.append(command.generation)
            self.status = replace(self.status, generation=command.generation, phase=RunPhase.RUNNING)
        elif isinstance(command, Abort):
            self.status = replace(self.status, generation=command.generation, phase=RunPhase.STOPPED)
        elif isinstance(command, Leave):
            self.status = replace(self.status, leaving=True, leaving_reason=command.reason, leaving_exit_code=143)
        elif isinstance(command, Signal) and not self.silent:
            self.signals[command.id] = self.signals.get(command.id, 0) + 1
            self.status = replace(self.status, answers=(Answer(command.id, True, "sent"),))


@dataclass
class World:
    """A job of two nodes in etcd, and leaders one after the other."""

    store: EtcdStore
    endpoint: str
    keys: JobKeys
    agents: dict[str, FakeAgent]

    async def join(self, number: int, host: str = "") -> None:
        node = Node(f"n{number}", host or f"h{number}", "127.0.0.1", 2, 1, "127.0.0.1:1")
        await self.store.put(self.keys.node(node.node_id), encode(node))
        self.agents[node.node_id] = FakeAgent(node, NodeStatus(node.node_id))

    async def leave(self, node_id: str) -> None:
        await self.store.delete(self.keys.node(node_id))
        del self.agents[node_id]

    async def elect(self) -> Leadership:
        """The next leader's key, in the place of the last one's."""
        await self.store.delete(self.keys.leader)
        record = Leader("n0", "127.0.0.1:1", uuid.uuid4().hex)
        return Leadership(self.keys.leader, await self.store.put(self.keys.leader, encode(record)))

    @asynccontextmanager
    async def led(self, store: EtcdStore | None = None) -> AsyncIterator[Term]:
        leadership = await self.elect()
        term = Term(store or self.store, self.keys, leadership, POLICY, SystemClock(), "n0")
        running = asyncio.create_task(term.run())
        talks = {agent.node.node_id: asyncio.create_task(agent.follow(term)) for agent in self.agents.values()}
        try:
            yield term
        finally:
            tasks = [running, *talks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def mortal(self, when: str) -> MortalStore:
        return MortalStore(self.endpoint, self.keys.commands, when)

    async def dies(self, when: str) -> None:
        """A leader takes over, and dies of what it finds."""
        mortal = self.mortal(when)
        try:
            leadership = await self.elect()
            term = Term(mortal, self.keys, leadership, POLICY, SystemClock(), "n0")
            talks = [asyncio.create_task(agent.follow(term)) for agent in self.agents.values()]
            with pytest.raises(DiedError):
                await term.run()
            await asyncio.gather(*talks)
        finally:
            await mortal.close()

    async def command(self, kind: str, reason: str = "", **arguments: Any) -> Operation:
        return await submit(self.store, self.keys.job, kind, WHO, 5.0, reason, **arguments)

    async def through(self, operation: Operation, seconds: float = 10.0) -> Operation:
        return await outcome(self.store, self.keys.job, operation, seconds)

    async def plans(self) -> int:
        return len((await self.store.list(self.keys.plans)).items)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited in vain")


@pytest.fixture
def play(etcd: Member) -> Callable[[Callable[[World], Any]], None]:
    """Runs a test's body with a world of two nodes that has a history of one generation."""

    async def body(test: Callable[[World], Any]) -> None:
        store = EtcdStore([etcd.endpoint])
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


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restart_is_carried_out_once_though_the_leader_dies_of_it(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart", "try again")
        await world.dies(when)
        async with world.led() as term:
            told = await world.through(asked)
            assert told.answer == "generation 2 runs: 4 ranks on 2 nodes"
            await until(lambda: term.job.phase is Phase.RUNNING)
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING and not term.job.operations)
        assert await world.plans() == 2
        assert [agent.starts for agent in world.agents.values()] == [[1, 2], [1, 2]]
        codes = [line.code for line in await happenings(world.store, world.keys.job)]
        assert (codes.count("command_accepted"), codes.count("command_done")) == (1, 1)

    play(test)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_abort_is_carried_out_though_the_leader_dies_of_it(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("abort", "enough")
        await world.dies(when)
        async with world.led() as term:
            told = await world.through(asked)
            assert (told.standing, told.exit_code) == (Standing.DONE, 0)
            assert (term.job.phase, term.job.exit_code) == (Phase.STOPPED, 94)
        with pytest.raises(JobFinishedError, match="has ended"):
            await world.command("abort")

    play(test)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_scaling_is_kept_by_the_next_leader(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("scale", min_nodes=1, max_nodes=1)
        await world.dies(when)
        async with world.led() as term:
            assert (await world.through(asked)).answer == "generation 2 runs: 2 ranks on 1 node"
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            assert (term.job.policy.min_nodes, term.job.policy.max_nodes) == (1, 1)
        assert await world.plans() == 2

    play(test)


def test_a_signal_is_sent_once_though_leaders_change(play) -> None:
    async def test(world: World) -> None:
        for agent in world.agents.values():
            agent.silent = True
        asked = await world.command("signal", signal=10)
        async with world.led() as term:
            await until(lambda: bool(term.job.answer_by))
        for agent in world.agents.values():
            agent.silent = False
        async with world.led():
            told = await world.through(asked)
        assert told.answers == {"n0": "sent", "n1": "sent"}
        assert [agent.signals for agent in world.agents.values()] == [{asked.id: 1}, {asked.id: 1}]

    play(test)


def test_a_drained_host_stays_out_under_every_leader(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("drain", "new disk", node="h1")
        async with world.led():
            await until(lambda: world.agents["n1"].status.leaving)
            await world.leave("n1")
            assert (await world.through(asked)).answer.startswith("h1 has left the job")
        await world.join(2, "h1")
        async with world.led() as term:
            await until(lambda: "n2" in term.job.nodes and term.job.phase is Phase.RUNNING)
            assert [m.node_id for m in term.job.members] == ["n0"]
            back = await world.command("undrain", node="h1")
            assert (await world.through(back)).answer == "h1 may take part again"
            await until(lambda: len(term.job.members) == 2 and term.job.phase is Phase.RUNNING)

    play(test)


def test_commands_are_taken_in_the_order_of_the_store(play) -> None:
    async def test(world: World) -> None:
        asked = [await world.command("scale", min_nodes=1, max_nodes=n) for n in (3, 4, 5, 6)]
        async with world.led() as term:
            for one in asked:
                assert (await world.through(one)).standing is Standing.DONE
            assert term.job.policy.max_nodes == 6

    play(test)


def test_a_command_nobody_takes_stands_and_says_so(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart")
        left = await world.through(asked, 0.2)
        error = verdict("job", left, 0.2)
        assert isinstance(error, UnansweredError)
        assert "not seen by a leader yet" in str(error)
        async with world.led():
            assert (await world.through(asked)).standing is Standing.DONE

    play(test)


def test_a_command_of_the_last_run_does_nothing_to_the_next(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("abort")
        for node_id in list(world.agents):
            await world.leave(node_id)
        await world.join(5)
        async with world.led() as term:
            told = await world.through(asked)
            assert (told.standing, told.exit_code) == (Standing.REFUSED, 67)
            await until(lambda: term.job.phase is Phase.RUNNING)

    play(test)


def test_what_is_no_command_is_left_alone(play) -> None:
    async def test(world: World) -> None:
        for number, value in enumerate(HOSTILE):
            await world.store.put(world.keys.command(f"bad{number}"), value)
        for number, value in enumerate(
            (b"", b"[]", b'{"seq": "x"}', b'{"seq": 1, "time": NaN, "code": "", "text": ""}')
        ):
            await world.store.put(world.keys.events + f"bad{number}", value)
        async with world.led() as term:
            for number, value in enumerate((b"x", encode(Operation("other-id", "abort", WHO, 1.0)))):
                await world.store.put(world.keys.command(f"worse{number}"), value)
            asked = await world.command("scale", min_nodes=1, max_nodes=3)
            assert (await world.through(asked)).standing is Standing.DONE
            assert term.job.phase is Phase.RUNNING
        assert (await happenings(world.store, world.keys.job))[0].code == "leading"

    play(test)


def test_history_and_commands_are_bounded(play) -> None:
    async def test(world: World) -> None:
        for seq in range(KEPT_EVENTS):
            line = json.dumps({"seq": seq, "time": 1.0, "code": "old", "text": "old"}).encode()
            await world.store.put(world.keys.event(seq), line)
        async with world.led():
            asked = [await world.command("undrain", node="h9") for _ in range(KEPT_COMMANDS + 10)]
            assert (await world.through(asked[-1])).standing is Standing.REFUSED
        lines = await happenings(world.store, world.keys.job)
        assert len(lines) == KEPT_EVENTS
        assert [line.seq for line in lines] == list(range(lines[0].seq, lines[0].seq + KEPT_EVENTS))
        assert len((await overview(world.store, world.keys.job)).operations) == KEPT_COMMANDS

    run_long = play
    run_long(test)


def test_events_are_followed_to_the_end_of_the_job(play) -> None:
    async def test(world: World) -> None:
        seen: list[str] = []

        async def follow() -> None:
            async with aclosing(follow_happenings(world.store, world.keys.job)) as lines:
                async for line in lines:
                    seen.append(line.code)

        following = asyncio.create_task(follow())
        async with world.led():
            await until(lambda: seen.count("leading") == 2)
            await world.command("abort")
            await asyncio.wait_for(following, 10)
        assert seen[-2:] == ["job_stopped", "command_done"]

    play(test)


def test_what_can_be_said_without_a_leader(etcd: Member) -> None:
    async def test() -> None:
        store = EtcdStore([etcd.endpoint])
        try:
            job = f"said {uuid.uuid4().hex}/x"
            keys = JobKeys(job)
            with pytest.raises(NoSuchJobError, match="no job"):
                await submit(store, job, "abort", WHO, 1.0, "")
            await store.put(keys.state, encode(State(Phase.RUNNING, 3, 0, Reason("start", "the job starts"))))
            assert job in await job_names(store)
            assert (await overview(store, job)).phase == "gone"
            with pytest.raises(JobFinishedError, match="no agent of it lives"):
                await submit(store, job, "abort", WHO, 1.0, "")
            await store.put(keys.node("n0"), encode(Node("n0", "h0", "127.0.0.1", 2, 1, "")))
            await store.put(keys.leader, encode(Leader("n0", "", "token")))
            with pytest.raises(CommandRefusedError, match="torchrun's"):
                await submit(store, job, "abort", WHO, 1.0, "")
            assert not (await store.list(keys.commands)).items, "nothing was written"
        finally:
            await store.close()

    run(test())
