"""A node that leads its own job, on a store in memory: however etcd falters, it hears the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from elaunch.agent import leading as leading_module
from elaunch.agent.membership import Membership, Site
from elaunch.agent.status import StatusBoard
from elaunch.clock import SystemClock
from elaunch.controller.commands import Command, Start
from elaunch.controller.node_status import RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.errors import EtcdLostError, EtcdRefusedError
from elaunch.progress import Heartbeat
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, Phase, Spec, decode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Compare, Op, Put, Txn, TxnResult
from tests.etcd.memory_store import MemoryStore

KEYS = JobKeys("job")


class FalteringStore(MemoryStore):
    """Is lost once, after it has taken the state that ends the job: nobody has been told of it yet."""

    faltered = False

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        result = await super().txn(compares, ops, otherwise=otherwise)
        states = [decode(State, op.value) for op in ops if isinstance(op, Put) and op.key == KEYS.state]
        if any(state.phase is Phase.SUCCEEDED for state in states) and not self.faltered:
            self.faltered = True
            raise EtcdLostError("etcd did not answer")
        return result


class FullStore(MemoryStore):
    """Refuses the first writes of a leader: it is out of space for a while."""

    refused = 0

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        if self.refused < 2 and any(isinstance(op, Put) and op.key.startswith(KEYS.plans) for op in ops):
            self.refused += 1
            raise EtcdRefusedError("etcd refused Txn: RESOURCE_EXHAUSTED: mvcc: database space exceeded")
        return await super().txn(compares, ops, otherwise=otherwise)


class Ranks:
    """Ranks that end well at once."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board
        self.started: list[int] = []

    def want(self, command: Command) -> None:
        if isinstance(command, Start):
            self.started.append(command.generation)
            self._board.update(generation=command.generation, phase=RunPhase.SUCCEEDED)

    async def stop(self, _: float | None) -> None:
        return

    async def next_heartbeat(self) -> Heartbeat:
        await asyncio.sleep(0.01)
        return Heartbeat("n0", 1, 0.01)


async def membership(store: MemoryStore) -> tuple[Membership, ControlServer, Ranks]:
    board = StatusBoard()
    ranks = Ranks(board)
    server = ControlServer()
    port = await server.start("127.0.0.1")
    site = Site(
        store=store,
        keys=KEYS,
        spec=Spec(1, 1, 0, {"default": {"nproc": 1, "program": "train.py"}}),
        policy=Policy(1, 1, 0),
        clock=SystemClock(),
        status=board,
        server=server,
        lease_ttl=15,
        close_timeout=5.0,
        on_deadline=lambda _: None,
        on_lease=lambda _: None,
        on_command=ranks.want,
        stop_ranks=ranks.stop,
        next_heartbeat=ranks.next_heartbeat,
    )
    board.update(node_id="n0")
    return Membership(site, Node("n0", "h0", "127.0.0.1", 1, 1, f"127.0.0.1:{port}")), server, ranks


def test_the_end_is_heard_though_the_leaders_own_stream_was_cut_meanwhile() -> None:
    async def test() -> None:
        store = FalteringStore()
        node, server, ranks = await membership(store)
        end = await asyncio.wait_for(node.run(), 60)
        assert (end.outcome, end.exit_code) == ("succeeded", 0)
        assert store.faltered
        assert ranks.started == [1]
        await server.stop()

    asyncio.run(test())


def test_an_etcd_that_refuses_for_a_while_does_not_end_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(leading_module, "ASK_AGAIN", 0.01)
        store = FullStore()
        node, server, ranks = await membership(store)
        end = await asyncio.wait_for(node.run(), 60)
        assert (end.outcome, end.exit_code) == ("succeeded", 0)
        assert store.refused == 2
        assert ranks.started == [1]
        await server.stop()

    asyncio.run(test())
