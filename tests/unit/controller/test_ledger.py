"""A leader's writes: none is larger than etcd takes, and what nobody has to wait for holds nothing up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from elaunch.clock import SystemClock
from elaunch.controller.history import Entry
from elaunch.controller.job import Job
from elaunch.controller.ledger import AT_ONCE, COMMANDS_AT_ONCE, KEPT_COMMANDS, Ledger
from elaunch.controller.policy import Policy
from elaunch.errors import EtcdLostError
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.journal import Operation, Standing, decode_operation
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Phase, Reason, encode
from elaunch.rendezvous.store import Compare, Op, Put, Txn, TxnResult
from tests.etcd.memory_store import MemoryStore

KEYS = JobKeys("job")
MOST_OPERATIONS = 128  # etcd's --max-txn-ops
MOST_BYTES = 1536 << 10  # and --max-request-bytes


class StrictStore(MemoryStore):
    """Takes no more in one transaction than etcd does."""

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        assert len(ops) <= MOST_OPERATIONS
        assert sum(len(op.value) for op in ops if isinstance(op, Put)) <= MOST_BYTES
        return await super().txn(compares, ops, otherwise=otherwise)


def _accepted(number: int, answer: str = "") -> Operation:
    return Operation(
        f"op{number}", "stacks", "ada@login1", 1.0, standing=Standing.ACCEPTED, answers={"n0": answer}, nodes=("n0",)
    )


async def _ledger(store: MemoryStore, known: Sequence[Operation]) -> Ledger:
    epoch = await store.put(KEYS.leader, b"n0")
    for operation in known:
        await store.put(KEYS.command(operation.id), encode(operation))
    ledger = Ledger(store, KEYS, Leadership(KEYS.leader, epoch).guard, SystemClock())
    ledger.load(None, (await store.list(KEYS.commands)).items)
    return ledger


async def _standings(store: MemoryStore) -> list[Standing]:
    items = (await store.list(KEYS.commands)).items
    return [decode_operation(kv.value, kv.create_revision).standing for kv in items]


def _over(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    return tuple(replace(o, standing=Standing.FAILED) for o in operations)


def test_a_job_ends_though_many_commands_with_long_answers_end_with_it() -> None:
    """As one transaction that would be 200 operations and 10 MB: etcd would refuse the end of the job for ever."""

    async def test() -> None:
        store = StrictStore()
        open_ones = [_accepted(number, "x" * 100_000) for number in range(100)]
        ledger = await _ledger(store, open_ones)
        job = Job(Policy(1, 1, 0), phase=Phase.FAILED, operations=_over(open_ones))
        ledger.note(Entry("line", f"line {number} " + "y" * 3_000) for number in range(60))
        written: set[str] = set()
        while ledger.owes(job):
            written |= await ledger.write(job)
        assert written == {operation.id for operation in open_ones}
        assert await _standings(store) == [Standing.FAILED] * KEPT_COMMANDS

    asyncio.run(test())


def test_the_fullest_transaction_that_there_can_be_is_taken() -> None:
    """A plan, as many commands taken as there are at once, others that are over, and much to tell."""

    async def test() -> None:
        store = StrictStore()
        open_ones = [_accepted(number) for number in range(100)]
        ledger = await _ledger(store, open_ones)
        over = Job(Policy(1, 1, 0), phase=Phase.FAILED, operations=_over(open_ones[:KEPT_COMMANDS]))
        while ledger.owes(over):
            await ledger.write(over)
        taken = [replace(_accepted(number), standing=Standing.REFUSED) for number in range(200, 200 + COMMANDS_AT_ONCE)]
        ledger.note(Entry("line", f"line {number}") for number in range(AT_ONCE))
        plan = Plan(101, 0, Reason("start", "it starts"), (), 1, "n0", "127.0.0.1", 1)
        job = Job(Policy(1, 1, 0), plan=plan, operations=(*_over(open_ones[KEPT_COMMANDS:]), *taken))
        written = await ledger.commit_plan(plan, job)
        assert written == {operation.id for operation in taken}, "those whose effect is in the state come first"
        assert not ledger.owes(job)
        assert not ledger.has_all(job)

    asyncio.run(test())


def test_what_came_of_an_accepted_command_is_written_without_anyone_waiting() -> None:
    async def test() -> None:
        store = StrictStore()
        ledger = await _ledger(store, [_accepted(0)])
        job = Job(Policy(1, 1, 0), phase=Phase.RUNNING, operations=_over([_accepted(0)]))
        assert not ledger.owes(job)
        ledger.write_behind(job)
        assert await ledger.settle() == {"op0"}
        assert await _standings(store) == [Standing.FAILED]
        assert ledger.has_all(job)

    asyncio.run(test())


def test_commands_that_are_long_over_are_forgotten() -> None:
    async def test() -> None:
        store = StrictStore()
        ledger = await _ledger(store, [])
        for number in range(3 * KEPT_COMMANDS):
            job = Job(Policy(1, 1, 0), phase=Phase.RUNNING, operations=(_accepted(number),))
            await ledger.write(job)
            job = replace(job, operations=_over(job.operations))
            assert await ledger.write(job) == {f"op{number}"}
            assert ledger.stands(f"op{number}")
            assert ledger.has_all(job)
        assert len(await _standings(store)) == len(ledger._standings) == KEPT_COMMANDS

    asyncio.run(test())


class LostStore(MemoryStore):
    """Goes away after the leader was elected."""

    away = False

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        if self.away:
            raise EtcdLostError("etcd is away")
        return await super().txn(compares, ops, otherwise=otherwise)


def test_a_write_that_fails_is_measured_as_well() -> None:
    async def test() -> None:
        store = LostStore()
        ledger = await _ledger(store, [])
        store.away = True
        seconds: list[float] = []
        ledger.watched = seconds.append
        with pytest.raises(EtcdLostError):
            await ledger.write(Job(Policy(1, 1, 0)))
        assert len(seconds) == 1

    asyncio.run(test())
