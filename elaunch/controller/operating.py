"""An operator's end: what etcd says of a job, a command on its way, what became of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from elaunch.controller.access import Tokens
from elaunch.controller.operations import FINISHED, NOT_FOUND
from elaunch.controller.seals import seal
from elaunch.errors import (
    AccessRefusedError,
    AmbiguousError,
    CommandRefusedError,
    CompactedError,
    ElaunchError,
    EtcdLostError,
    JobFinishedError,
    NoSuchJobError,
    UnansweredError,
)
from elaunch.rendezvous.journal import Happening, Operation, Standing, decode_happening, decode_operation, one_line
from elaunch.rendezvous.keys import ROOT, JobKeys
from elaunch.rendezvous.records import Leader, Node, Phase, Plan, Spec, State, decode, encode
from elaunch.rendezvous.store import KeyValue, Put, Store, absent
from elaunch.rendezvous.waiting import within

GONE = "gone"
_TRIES = 10
_LOOK = 2.0  # seconds without news of a command after which etcd is asked whether it is there at all


@dataclass(frozen=True, slots=True)
class Overview:
    """A job as etcd has it. ``nodes`` are those that live; ``epoch`` is the leader's."""

    job: str
    state: State | None
    spec: Spec | None
    plan: Plan | None
    leader: Leader | None
    epoch: int
    nodes: tuple[Node, ...]
    operations: tuple[Operation, ...]

    @property
    def phase(self) -> str:
        """The phase, or ``gone`` where no agent lives and the job had not ended."""
        state = self.state
        if state is not None and state.phase.final:
            anew = self.nodes and all(node.joined > state.horizon for node in self.nodes)
            return Phase.WAITING.value if anew else state.phase.value
        if not self.nodes:
            return GONE
        members = {member.node_id for member in self.plan.members} if self.plan else set()
        if state is None or not any(node.node_id in members for node in self.nodes):
            return Phase.WAITING.value
        return state.phase.value

    @property
    def over(self) -> bool:
        return self.phase in (GONE, *(phase.value for phase in Phase if phase.final))


async def job_names(store: Store) -> list[str]:
    """The jobs of which anything is in etcd."""
    return [unquote(name) for name in await store.children(ROOT)]


async def overview(store: Store, job: str) -> Overview:
    """Raises NoSuchJobError, CommandRefusedError where its keys hold what no release of ours has written."""
    try:
        return await _overview(store, job)
    except ValueError as error:
        raise CommandRefusedError(f"the keys of job {job!r} in etcd cannot be read: {error}") from None


async def _overview(store: Store, job: str) -> Overview:
    keys = JobKeys(job)
    state, spec, leader = await asyncio.gather(*(store.get(key) for key in (keys.state, keys.spec, keys.leader)))
    nodes, commands = await asyncio.gather(store.list(keys.nodes), store.list(keys.commands))
    if not (state or spec or nodes.items):
        raise NoSuchJobError(f"no job {job!r} in this etcd; elaunch ps lists those that there are")
    known = decode(State, state.value) if state else None
    plan = await store.get(keys.plan(known.generation)) if known else None
    return Overview(
        job=job,
        state=known,
        spec=decode(Spec, spec.value) if spec else None,
        plan=decode(Plan, plan.value) if plan else None,
        leader=decode(Leader, leader.value) if leader else None,
        epoch=leader.create_revision if leader else 0,
        nodes=tuple(sorted((_node(kv) for kv in nodes.items), key=lambda node: node.joined)),
        operations=_operations(commands.items),
    )


async def submit(
    store: Store,
    job: str,
    kind: str,
    who: str,
    at: float,
    reason: str,
    tokens: Tokens | None = None,
    **arguments: Any,
) -> Operation:
    """Write a command, so that it will be carried out whatever becomes of us; the command as it stands in etcd.

    Raises NoSuchJobError, JobFinishedError, CommandRefusedError, UsageError where ``tokens`` are no operator's: then
    nothing was written.
    """
    seen = await overview(store, job)
    if seen.over:
        why = seen.state.reason.text if seen.state else "no agent of it lives"
        if seen.phase == GONE:
            why = f"no agent of it lives; the last that was heard of it: {why}"
        raise JobFinishedError(f"job {job!r} has ended ({seen.phase}): {why}")
    if seen.leader is not None and not seen.leader.address:
        raise CommandRefusedError(f"job {job!r} is torchrun's, with elaunch's rendezvous only: it takes no commands")
    # As leaders read it, so that the seal is of the same words.
    operation = Operation(uuid.uuid4().hex[:12], kind, one_line(who), at, one_line(reason), arguments)
    operation = replace(operation, seal=seal(tokens, job, operation.words))
    key = JobKeys(job).command(operation.id)
    for _ in range(_TRIES):
        try:
            result = await store.txn([absent(key)], [Put(key, encode(operation))])
        except AmbiguousError:
            continue  # the next try tells whether this one was applied: the id is nobody else's
        if result.succeeded:
            return replace(operation, order=result.revision)
        if (found := await store.get(key)) is not None:
            return decode_operation(found.value, found.create_revision)
    raise EtcdLostError(f"etcd did not settle the command in {_TRIES} tries; it may be carried out or not")


async def outcome(store: Store, job: str, operation: Operation, timeout: float) -> Operation:
    """The command once it is over, or as it stands after ``timeout`` seconds.

    Raises EtcdLostError where etcd is gone and nothing is known of the command.
    """
    asked = _Asked(operation)
    following = asyncio.ensure_future(_follow(store, JobKeys(job), asked))
    try:
        await within(timeout, following)
    except asyncio.TimeoutError:
        pass
    except EtcdLostError:
        if asked.now.standing is Standing.PENDING:
            raise
    return asked.now


def verdict(job: str, operation: Operation, timeout: float) -> ElaunchError | None:
    """What a command that did not do as asked is to be reported as; None where it did."""
    if operation.standing is Standing.DONE:
        return None
    if operation.standing.open:
        so_far = f"accepted ({operation.answer})" if operation.answer else "not seen by a leader yet"
        return UnansweredError(
            f"{operation.kind}: {so_far}, and not through within {timeout:.0f} s; it stands, and will be carried out"
            f" (elaunch status {job})"
        )
    kinds: dict[int, type[ElaunchError]] = {
        FINISHED: JobFinishedError,
        NOT_FOUND: NoSuchJobError,
        UnansweredError.exit_code: UnansweredError,
        AccessRefusedError.exit_code: AccessRefusedError,
    }
    return kinds.get(operation.exit_code, CommandRefusedError)(f"{operation.kind}: {operation.answer}")


async def happenings(store: Store, job: str) -> list[Happening]:
    """The job's history, oldest first. Raises NoSuchJobError."""
    await overview(store, job)
    return _lines((await store.list(JobKeys(job).events)).items)


async def follow_happenings(store: Store, job: str) -> AsyncGenerator[Happening, None]:
    """The history, and then each line as it is written, until the job is over.

    Raises NoSuchJobError, and EtcdLostError where etcd goes and does not come back.
    """
    keys = JobKeys(job)
    seen = -1
    over = False
    while not over:
        over = (await overview(store, job)).over  # before the lines are read: none that was written by then is missed
        snapshot = await store.list(keys.events)
        for line in _lines(snapshot.items):
            if line.seq > seen:
                seen = line.seq
                yield line
        if not over:
            await _until_news(store, keys, snapshot.revision + 1)


async def _until_news(store: Store, keys: JobKeys, revision: int) -> None:
    """Return at the next line of the history, or when the job may have ended. Raises EtcdLostError."""
    looking = asyncio.ensure_future(_news_of_job(store, keys, revision))
    try:
        while not looking.done():
            await asyncio.wait({looking}, timeout=_LOOK)
            await store.get(keys.state)  # a watch waits for an etcd that is gone for ever
        with suppress(CompactedError):
            looking.result()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _news_of_job(store: Store, keys: JobKeys, revision: int) -> None:
    async with aclosing(store.watch(keys.prefix, start_revision=revision)) as batches:
        async for _, changes in batches:
            for change in changes:
                key = change.kv.key
                if key.startswith(keys.events) or key == keys.state or (change.deleted and key.startswith(keys.nodes)):
                    return


@dataclass
class _Asked:
    now: Operation


async def _follow(store: Store, keys: JobKeys, asked: _Asked) -> None:
    """Keep ``asked`` up to date until the command is over."""
    key = keys.command(asked.now.id)
    while True:
        snapshot = await store.list(key)
        found = next((kv for kv in snapshot.items if kv.key == key), None)
        if found is None:
            raise EtcdLostError("the command is no longer in etcd: too many came after it")
        asked.now = decode_operation(found.value, found.create_revision)
        if not asked.now.standing.open:
            return
        news = asyncio.ensure_future(_news(store, key, snapshot.revision + 1))
        try:
            await within(_LOOK, news)
        except (asyncio.TimeoutError, CompactedError):
            continue


async def _news(store: Store, key: str, revision: int) -> None:
    """Return at the next change of ``key``."""
    async with aclosing(store.watch(key, start_revision=revision)) as batches:
        async for _, changes in batches:
            if any(change.kv.key == key for change in changes):
                return


def _lines(items: Iterable[KeyValue]) -> list[Happening]:
    found = []
    for kv in items:
        with suppress(ValueError):  # no leader of ours wrote it
            found.append(decode_happening(kv.value))
    return found


def _operations(items: tuple[KeyValue, ...]) -> tuple[Operation, ...]:
    found = []
    for kv in items:
        try:
            found.append(decode_operation(kv.value, kv.create_revision))
        except ValueError:
            continue  # nothing that a leader would carry out
    return tuple(sorted(found, key=lambda operation: operation.order))


def _node(kv: KeyValue) -> Node:
    return replace(decode(Node, kv.value), joined=kv.create_revision)
