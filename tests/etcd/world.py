"""A job in a real etcd whose nodes are played, and whose leaders come and go."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from elaunch.clock import SystemClock
from elaunch.controller.commands import Abort, End, Leave, Signal, Start
from elaunch.controller.leader import Term
from elaunch.controller.node_status import Answer, NodeStatus, RunPhase
from elaunch.controller.operating import outcome, submit
from elaunch.controller.policy import Policy
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Node, encode
from elaunch.rendezvous.store import Compare, Op, Put, Txn, TxnResult
from tests.etcd.running import PATIENT

WHO = "ada@login1"
POLICY = Policy(1, 2, 1, last_call_timeout=0.05, settle=0.01, reattach=0.2)


class DiedError(Exception):
    """The leader is gone, in the middle of what it did."""


class MortalStore(EtcdStore):
    """Its leader dies when it writes to a key that begins so: ``before`` etcd hears of it, or ``after``."""

    def __init__(self, endpoint: str, prefix: str, when: str) -> None:
        super().__init__([endpoint], **PATIENT)
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
    end: End | None = None

    async def follow(self, term: Term) -> None:
        outbox = term.attach(self.node.node_id)
        term.receive(self.status)
        while (command := await outbox.next()) is not None:
            self._obey(command)
            term.receive(self.status)

    def _obey(self, command: object) -> None:
        if isinstance(command, End):
            self.end = command
        elif isinstance(command, Start) and command.generation > self.status.generation:
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

    async def through(self, operation: Operation, seconds: float = 60.0) -> Operation:
        return await outcome(self.store, self.keys.job, operation, seconds)

    async def plans(self) -> int:
        return len((await self.store.list(self.keys.plans)).items)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.005)
