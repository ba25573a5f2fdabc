"""What stands in etcd: frozen records, JSON at the edge so that an operator can read them with etcdctl.

A reader ignores members that it does not know, so that two releases can meet in one job.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from elaunch.errors import BadRecordError
from elaunch.rendezvous.shapes import built

R = TypeVar("R")


class Phase(str, Enum):
    """Where a job stands (architecture, section 5)."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ABORTING = "aborting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was decided: ``code`` for a machine, ``text`` for a person."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Spec:
    """What must be equal on all nodes of a job; the first agent writes it, create-only.

    ``roles`` maps each role to what its nodes must share: ``{"nproc": 4, "program": "train.py"}``. ``security`` says
    in words how its servers are closed. ``policy`` is what else a leader that is no node of the job needs to know: the
    first node's options hold, and another's do not refuse it.
    """

    min_nodes: int
    max_nodes: int
    max_restarts: int
    roles: dict[str, dict[str, Any]]
    security: str = ""
    policy: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """One agent's lifetime on one host.

    ``slots`` is the number of ranks that it starts, ``store_port`` the port on which it is already listening
    for the next generation's store, ``control`` the host:port of its control server, should it lead.
    ``node_rank`` is -1 where none was asked for; with ``owns_rank`` no other node may have it. ``joined`` orders nodes:
    it is the create revision of the key, filled in by the reader. ``topology`` is the digest of the machine, equal for
    equal machines, "" where it is not known; ``place`` is the number that a scheduler gave the node, -1: none did.
    """

    node_id: str
    host: str
    address: str
    slots: int
    store_port: int
    control: str
    pid: int = 0
    role: str = "default"
    node_rank: int = -1
    version: str = ""
    joined: int = 0
    owns_rank: bool = False
    topology: str = ""
    place: int = -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last committed checkpoint: it follows the data, and never leads it.

    ``digest`` is that of its manifest, ``bytes`` its size, ``seconds`` what it took, ``time`` when it was recorded, in
    the leader's wall-clock seconds, ``rank`` who told of it and on which ``host``. The program had to wait for it for
    ``blocked`` seconds, None where that was not told.
    """

    step: int
    path: str
    generation: int
    restart_count: int
    digest: str
    bytes: int = 0
    seconds: float = 0.0
    time: float = 0.0
    rank: int = 0
    host: str = ""
    blocked: float | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads: where its control server listens, and the token that its clients must show.

    ``web`` is the address of its page, "" where it has none.
    """

    node_id: str
    address: str
    token: str
    web: str = ""


@dataclass(frozen=True, slots=True)
class Controller:
    """A dedicated controller that is there to lead: its key is on a lease of ``lease_ttl`` seconds."""

    controller_id: str
    address: str
    lease_ttl: float
    host: str = ""
    pid: int = 0
    version: str = ""


def encode(record: Any) -> bytes:
    """A record as compact JSON."""
    return json.dumps(_values(record), separators=(",", ":"), default=_values).encode()


def _values(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _names(type(record))}  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[str, ...]:
    """The members of a kind of records. Raises TypeError where it is none."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.init)


def decode(kind: type[R], value: bytes) -> R:
    """The record in ``value``. Raises ValueError if it is none of that kind."""
    try:
        found: R = built(kind, json.loads(value))
    except RecursionError:
        raise ValueError(f"not a {kind.__name__}: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from None
    return found


def read(kind: type[R], key: str, value: bytes) -> R:
    """The record that etcd has in ``key``, which the job cannot do without. Raises BadRecordError."""
    try:
        return decode(kind, value)
    except ValueError as error:
        raise BadRecordError(key, str(error)) from None
