"""A node's own rank: a ``--node-rank`` that was asked for is one node's at a time.

Its key is on the node's lease, and created in the transaction that writes the node's key: so two nodes that come at
once cannot both have it, and it is free again as soon as the node counts as gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from elaunch.errors import CompactedError, RankTakenError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, encode, read
from elaunch.rendezvous.store import Compare, Field, KeyValue, Put, Store, absent
from elaunch.rendezvous.waiting import within

_LATE = 2.0  # seconds: etcd looks for leases that have ended now and then, and a cluster gives none less than this


@dataclass(frozen=True, slots=True)
class Seat:
    """Who holds a rank."""

    node_id: str
    host: str


def claim(keys: JobKeys, node: Node, lease: int) -> Put | None:
    """What ``node`` writes to hold its rank; None where it has none of its own."""
    if not node.owns_rank:
        return None
    return Put(keys.seat(node.node_rank), encode(Seat(node.node_id, node.host)), lease)


async def guard(store: Store, seat: Put) -> Compare:
    """The condition under which ``seat`` may be written: it is free, or ours. Raises RankTakenError."""
    found = await store.get(seat.key)
    if found is None:
        return absent(seat.key)
    if found.value == seat.value:  # of a transaction whose answer was lost
        return Compare(seat.key, Field.VALUE, seat.value)
    raise _taken(found)


async def await_seat(
    store: Store, keys: JobKeys, node: Node, lease_ttl: int, on_wait: Callable[[str, float], None]
) -> None:
    """Return when nobody holds ``node``'s rank.

    A holder that has died is gone with its lease of ``lease_ttl`` seconds, so that a replacement waits for that and
    comes in. One that is there for longer lives: RankTakenError. ``on_wait`` is told of who is waited for, and for how
    many seconds at most.
    """
    if not node.owns_rank:
        return
    key, told = keys.seat(node.node_rank), ""
    while items := (snapshot := await store.list(key)).items:
        holder = items[0]
        seat = read(Seat, holder.key, holder.value)
        if told != seat.node_id:
            told = seat.node_id
            on_wait(f"--node-rank={node.node_rank} is held by node {seat.host} ({seat.node_id})", lease_ttl + _LATE)
        try:
            await within(lease_ttl + _LATE, _gone(store, key, snapshot.revision + 1))
        except asyncio.TimeoutError:
            raise _taken(holder) from None
        except CompactedError:
            continue


async def _gone(store: Store, key: str, revision: int) -> None:
    async with aclosing(store.watch(key, start_revision=revision)) as batches:
        async for _, changes in batches:
            if any(change.deleted for change in changes):
                return


def _taken(holder: KeyValue) -> RankTakenError:
    seat, rank = read(Seat, holder.key, holder.value), int(holder.key.rpartition("/")[2])
    return RankTakenError(
        f"rendezvous: --node-rank={rank} is taken by node {seat.host} ({seat.node_id}), which is alive; "
        "give each node a rank of its own, or stop that one first"
    )
