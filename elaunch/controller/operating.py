"""An operator's end: a command on its way, and what became of it."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from elaunch.controller.access import Tokens
from elaunch.controller.seals import seal
from elaunch.controller.standings import FINISHED, NOT_FOUND
from elaunch.controller.survey import GONE, overview
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
from elaunch.rendezvous.journal import Operation, Standing, decode_operation, one_line
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import encode
from elaunch.rendezvous.store import Compare, Field, Put, Store, absent
from elaunch.rendezvous.waiting import within

_TRIES = 10
_LOOK = 2.0  # seconds without news of a command after which etcd is asked whether it is there at all


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
            f"{job}: {operation.kind}: {so_far}, and not through within {timeout:.0f} s; it stands, and will be carried"
            f" out (elaunch status {job})"
        )
    kinds: dict[int, type[ElaunchError]] = {
        FINISHED: JobFinishedError,
        NOT_FOUND: NoSuchJobError,
        UnansweredError.exit_code: UnansweredError,
        AccessRefusedError.exit_code: AccessRefusedError,
    }
    return kinds.get(operation.exit_code, CommandRefusedError)(f"{job}: {operation.kind}: {operation.answer}")


@dataclass
class _Asked:
    now: Operation


async def _follow(store: Store, keys: JobKeys, asked: _Asked) -> None:
    """Keep ``asked`` up to date until the command is over."""
    key = keys.command(asked.now.id)
    while asked.now.standing.open:
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
        except CompactedError:
            continue
        except asyncio.TimeoutError:
            await _expire(store, keys, asked, found.mod_revision)


async def _expire(store: Store, keys: JobKeys, asked: _Asked, revision: int) -> None:
    """Settle the command where the job is over and nobody is left to do so; the next run's leader would, much later."""
    try:
        seen = await overview(store, keys.job)
        over = next((o for o in seen.operations if o.id == asked.now.id and not o.standing.open), None)
        if over is not None:
            key = keys.command(over.id)
            unchanged = [Compare(key, Field.MOD_REVISION, revision), absent(keys.leader)]
            if (await store.txn(unchanged, [Put(key, encode(over))])).succeeded:
                asked.now = over
    except (NoSuchJobError, CommandRefusedError, AmbiguousError):
        return  # the next look tells


async def _news(store: Store, key: str, revision: int) -> None:
    """Return at the next change of ``key``."""
    async with aclosing(store.watch(key, start_revision=revision)) as batches:
        async for _, changes in batches:
            if any(change.kv.key == key for change in changes):
                return
