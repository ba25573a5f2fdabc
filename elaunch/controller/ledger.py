"""All that a leader writes of its job: state, plans, commands' answers, history; each write under its guard."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from elaunch.clock import Clock
from elaunch.controller.history import Entry, merged
from elaunch.controller.job import Job
from elaunch.rendezvous.fence import Committer
from elaunch.rendezvous.journal import Happening, Operation, Standing, decode_operation
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Checkpoint, encode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Compare, Delete, KeyValue, Op, Put, Store, absent

KEPT_PLANS = 100  # older plans are deleted; the newest number is in the state as well
KEPT_EVENTS = 1000
KEPT_COMMANDS = 50  # of those that are over
AT_ONCE = 40  # lines of history in one transaction: etcd takes 128 operations
_DIGITS = 15  # of the number of a line
COMMANDS_AT_ONCE = 20  # commands in one transaction
ROOM = 512 << 10  # bytes that commands take in one transaction: etcd takes 1.5 MiB
_LINE = 4000  # characters of one line of history


class Ledger:
    """One term's writes, one after the other. What it has written is known, so that nothing is written twice."""

    def __init__(
        self, store: Store, keys: JobKeys, guard: Compare, clock: Clock, check: Callable[[], None] = lambda: None
    ) -> None:
        """``check`` raises where the leader may not write any more, though etcd might still let it."""
        self.writing: asyncio.Task[frozenset[str]] | None = None
        self.watched: Callable[[float], None] = lambda _: None  # hears of the seconds of each write
        self._keys = keys
        self._guard = guard
        self._clock = clock
        self._check = check
        self._committer = Committer(store, keys.commit)
        self._state: State | None = None
        self._checkpoint: Checkpoint | None = None
        self._standings: dict[str, Standing] = {}
        self._over: deque[str] = deque()
        self._entries: list[Entry] = []
        self._seq = 0

    def load(
        self, state: State | None, items: Iterable[KeyValue], checkpoint: Checkpoint | None = None
    ) -> list[Operation]:
        """Take over what stands in etcd; the commands that are not over, in their order."""
        self._state, self._checkpoint = state, checkpoint
        found: list[Operation] = []
        for kv in items:
            number = kv.key.removeprefix(self._keys.events)
            if kv.key.startswith(self._keys.events) and number.isdecimal():
                self._seq = max(self._seq, int(number[:_DIGITS]) + 1)
            elif (operation := operation_in(self._keys, kv)) is not None:
                found.append(operation)
        found.sort(key=lambda operation: operation.order)
        self._standings = {operation.id: operation.standing for operation in found}
        self._over.extend(operation.id for operation in found if not operation.standing.open)
        return [operation for operation in found if operation.standing.open]

    def note(self, entries: Iterable[Entry]) -> None:
        """Lines for the history; they go out with the next write."""
        self._entries = merged([*self._entries, *entries])

    def stands(self, operation_id: str) -> bool:
        """Whether the command's acceptance is written: before that nobody may act on it."""
        return self._standings.get(operation_id, Standing.PENDING) is not Standing.PENDING

    def ends(self, job: Job) -> bool:
        """Whether the job's end is written, so that it may be told."""
        return job.state == self._state

    def has_recorded(self, job: Job) -> bool:
        """Whether the job's last checkpoint is written, so that its rank may hear of it."""
        return job.checkpoint == self._checkpoint

    def has_noted(self) -> bool:
        """Whether all lines of the history are written."""
        return not self._entries and self.writing is None

    def owes(self, job: Job) -> bool:
        """Whether something is unwritten that must be written before anybody hears of it.

        What came of a command whose acceptance is written is not: who waits for it looks into etcd.
        """
        unwritten = self._unwritten(job)
        if job.phase.final:
            return bool(unwritten) or not self.ends(job) or not self.has_recorded(job)
        return any(not self.stands(operation.id) for operation in unwritten)

    def has_all(self, job: Job) -> bool:
        """Whether nothing of the job is unwritten."""
        return self.ends(job) and self.has_recorded(job) and not self._unwritten(job)

    async def commit_plan(self, plan: Plan, job: Job) -> frozenset[str]:
        """Write the plan, with all else; the commands that are over and written so."""
        ops: list[Op] = [Put(self._keys.plan(plan.generation), encode(plan))]
        if plan.generation > KEPT_PLANS:
            ops.append(Delete(self._keys.plan(plan.generation - KEPT_PLANS)))
        over = await self.settle()
        return over | await self._write(job, [self._guard, absent(self._keys.plan(plan.generation))], ops)

    async def write(self, job: Job) -> frozenset[str]:
        """Write of what is unwritten as much as fits, and wait for it; the commands that are over and written so."""
        over = await self.settle()
        return over | await self._write(job, [self._guard], [])

    def write_behind(self, job: Job) -> None:
        """Write what nobody has to wait for, one write at a time."""
        if self.writing is None and (self._entries or not self.has_all(job)):
            self.writing = asyncio.create_task(self._write(job, [self._guard], []))

    async def fence(self) -> None:
        """Shut out what an earlier term of this same leader may still have under way."""
        await self._commit([self._guard], [])

    async def settle(self) -> frozenset[str]:
        """Wait for the write that goes on; the commands that are over and written so by it."""
        if self.writing is None:
            return frozenset()
        writing, self.writing = self.writing, None
        return await writing

    async def _write(self, job: Job, guards: Sequence[Compare], ops: list[Op]) -> frozenset[str]:
        operations, state, checkpoint = self._fitting(job), job.state, job.checkpoint
        over = [operation.id for operation, _ in operations if not operation.standing.open]
        ops += [Put(self._keys.command(operation.id), value) for operation, value in operations]
        surplus = frozenset(self._surplus(over))
        ops += [Delete(self._keys.command(old)) for old in sorted(surplus)]
        ops += [Put(self._keys.state, encode(state)), *self._lines()]
        if checkpoint is not None and checkpoint != self._checkpoint:
            # While no plan stands after that of its generation: what comes later is refused by etcd itself.
            guards = [*guards, absent(self._keys.plan(checkpoint.generation + 1))]
            ops.append(Put(self._keys.checkpoint, encode(checkpoint)))
        await self._commit(guards, ops)
        self._state, self._checkpoint = state, checkpoint
        self._standings.update({operation.id: operation.standing for operation, _ in operations})
        for old in surplus - {operation.id for operation in job.operations}:  # its key is gone: it cannot come again
            self._standings.pop(old, None)
        return frozenset(over)

    async def _commit(self, guards: Sequence[Compare], ops: Sequence[Op]) -> None:
        self._check()
        began = self._clock.monotonic()
        try:
            await self._committer.commit(guards, ops)
        finally:  # what fails after seconds is what an alert on slow writes is for
            self.watched(self._clock.monotonic() - began)

    def _unwritten(self, job: Job) -> list[Operation]:
        return [o for o in job.operations if self._standings.get(o.id) is not o.standing]

    def _fitting(self, job: Job) -> list[tuple[Operation, bytes]]:
        """The next commands to be written, and as what.

        First all that were taken just now, as their effect is in the state that is written with them, then of the
        others as many as etcd takes at once, one at least.
        """
        unwritten = self._unwritten(job)
        taken = [o for o in unwritten if not self.stands(o.id)]
        found = [(o, encode(o)) for o in taken]
        room = ROOM - sum(len(value) for _, value in found)
        for operation in (o for o in unwritten if self.stands(o.id)):
            value = encode(operation)
            room -= len(value)
            if found and (room < 0 or len(found) >= COMMANDS_AT_ONCE):
                break
            found.append((operation, value))
        return found

    def _surplus(self, over: Sequence[str]) -> list[str]:
        self._over.extend(over)
        return [self._over.popleft() for _ in range(len(self._over) - KEPT_COMMANDS)]

    def _lines(self) -> list[Op]:
        """The next lines of the history, and the removal of as many old ones."""
        now, self._entries = self._entries[:AT_ONCE], self._entries[AT_ONCE:]
        ops: list[Op] = []
        for entry in now:
            line = Happening(
                self._seq,
                self._clock.wall(),
                entry.code,
                entry.text[:_LINE],
                entry.generation,
                entry.who,
                entry.why,
                summed(entry.spans),
            )
            ops.append(Put(self._keys.event(self._seq), encode(line)))
            if self._seq >= KEPT_EVENTS:
                ops.append(Delete(self._keys.event(self._seq - KEPT_EVENTS)))
            self._seq += 1
        return ops


def summed(spans: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by phase."""
    found: dict[str, float] = {}
    for phase, seconds in spans:
        found[phase] = round(found.get(phase, 0.0) + seconds, 3)
    return found


def operation_in(keys: JobKeys, kv: KeyValue) -> Operation | None:
    """The command in a key; None where it is no command's key, or holds none."""
    if not kv.key.startswith(keys.commands):
        return None
    try:
        operation = decode_operation(kv.value, kv.create_revision)
    except ValueError:
        return None
    return operation if kv.key == keys.command(operation.id) else None
