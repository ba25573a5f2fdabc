"""The interface to the truth: what elaunch needs of a consistent key-value store, and no more.

:class:`elaunch.rendezvous.etcd.EtcdStore` is the implementation; a library may take its place by
satisfying :class:`Store` and passing ``tests/etcd/test_store_conformance.py``.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as of one revision. ``lease`` is 0 where the key has none."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All keys under a prefix, in key order, as of ``revision``."""

    revision: int
    items: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch. For a deletion ``kv.value`` is empty and ``kv.mod_revision`` is its revision."""

    kv: KeyValue
    deleted: bool


class Field(Enum):
    """What of a key a :class:`Compare` looks at."""

    CREATE_REVISION = "create_revision"
    MOD_REVISION = "mod_revision"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds if ``field`` of ``key`` equals ``value``; a key that does not exist has revision 0."""

    key: str
    field: Field
    value: int | bytes


def absent(key: str) -> Compare:
    """The condition that ``key`` does not exist."""
    return Compare(key, Field.CREATE_REVISION, 0)


@dataclass(frozen=True, slots=True)
class Put:
    """Write ``value``; with ``lease`` the key dies with that lease."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove one key, or with ``prefix`` all keys that begin with it."""

    key: str
    prefix: bool = False


Op = Put | Delete


@dataclass(frozen=True, slots=True)
class Txn:
    """Operations that are applied if all conditions hold."""

    compares: Sequence[Compare]
    ops: Sequence[Op]


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Whether the conditions held (then the operations were applied), and the store's revision.

    ``otherwise`` is whether those of the alternative held, where there was one and it came to it.
    """

    succeeded: bool
    revision: int
    otherwise: bool = False


class Store(Protocol):
    """A linearizable key-value store with leases, transactions and watches that resume.

    Every call has an overall deadline of its own (see the implementation), and raises
    :class:`elaunch.errors.EtcdLostError` when it passes. Calls that are idempotent are retried on other
    endpoints until then; a transaction is not.
    """

    async def get(self, key: str) -> KeyValue | None: ...

    async def list(self, prefix: str, *, keys_only: bool = False) -> Snapshot:
        """All keys under ``prefix``; with ``keys_only`` their values are empty."""
        ...

    async def children(self, prefix: str) -> tuple[str, ...]:
        """The names that come next in the keys below ``prefix``, up to the next ``/``, each once and in key order."""
        ...

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Write unconditionally (retried), return the revision."""
        ...

    async def delete(self, key: str, *, prefix: bool = False) -> None: ...

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        """Apply all ``ops`` if all ``compares`` hold, else try ``otherwise``, in one atomic step.

        Raises :class:`elaunch.errors.AmbiguousError` if the answer was lost after the request was sent; see
        :func:`elaunch.rendezvous.fence.commit` for how that is resolved.
        """
        ...

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[tuple[int, tuple[Change, ...]], None]:
        """All changes under ``prefix`` from ``start_revision`` on, none lost or repeated, as (revision, changes).

        It resumes by itself after a lost stream, on any endpoint, at the last seen revision + 1, for ever.
        Raises :class:`elaunch.errors.CompactedError` where the history is gone: list again, watch from there.
        """
        ...

    async def grant(self, ttl: int) -> int:
        """A new lease of ``ttl`` seconds; its id."""
        ...

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        """Renew once, on any endpoint, within ``timeout`` seconds; the seconds that it now has, 0 if it is gone."""
        ...

    async def revoke(self, lease: int) -> None:
        """End the lease and delete its keys. A lease that is gone already is no error."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """One etcd of a cluster. ``endpoints`` (where its clients connect) and ``name`` are empty until it has started.

    ``peers`` are the URLs under which the other members reach it; a learner has no vote yet.
    """

    id: int
    name: str
    peers: tuple[str, ...]
    endpoints: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class Health:
    """What one member says of itself. ``leader`` is the member id of whom it follows, 0 where it knows none.

    ``cluster`` is the same for all members of one cluster, and no other's.
    """

    cluster: int
    member: int
    leader: int
    version: str


Left = Callable[[], float]


def always() -> float:
    """A right that does not end."""
    return math.inf


class Cluster(Protocol):
    """The members of the store itself. All changes raise :class:`elaunch.errors.EtcdRefusedError` where etcd holds
    them for unsafe, now or at all, AmbiguousError where the answer was lost, and EtcdLostError.

    etcd cannot fence them. So ``left`` is asked at the moment of each sending for how many seconds the right to it
    lasts: DeposedError where it is over, and no later than that the change is given up.
    """

    async def members(self) -> tuple[ClusterMember, ...]:
        """All members, learners too."""
        ...

    async def add_learner(self, peer: str, *, left: Left = always) -> None:
        """Take in a member that is about to start at this peer URL. It has no vote until it is promoted."""
        ...

    async def promote(self, member: int, *, left: Left = always) -> None:
        """Give a learner its vote; refused while it has not caught up."""
        ...

    async def remove(self, member: int, *, left: Left = always) -> None:
        """Let a member go. If it leads the others, nothing is written until they have elected another."""
        ...

    async def hand_over(self, endpoint: str, member: int, *, timeout: float) -> bool:
        """Whether the member at this endpoint has led the others, and within ``timeout`` seconds ``member`` does.

        Only a voter takes over. What is sent meanwhile may be lost, as in an election, but only for milliseconds.
        """
        ...

    async def move_peer(self, member: int, peer: str) -> None:
        """Tell the cluster that a member is reached at this peer URL from now on."""
        ...

    async def health(self, endpoint: str, *, timeout: float) -> Health | None:
        """What the member at this endpoint says of itself, None where it does not answer in ``timeout`` seconds."""
        ...
