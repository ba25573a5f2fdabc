"""What stands in etcd: frozen records, JSON at the edge so that an operator can read them with etcdctl.

A reader ignores members that it does not know, so that two releases can meet in one job.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar

from elaunch.errors import BadRecordError
from elaunch.rendezvous.shapes import built
from elaunch.topology.probe.facts import PortNote

R = TypeVar("R")

UNTOLD: Final = -2


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
class Member:
    """A node's place in a generation: its ranks are ``rank0 .. rank0 + slots - 1``."""

    node_id: str
    host: str
    slots: int
    group_rank: int
    rank0: int
    role: str
    role_rank0: int
    role_world_size: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """``generation`` went back to ``step``: checkpoints that are above it and of earlier generations are abandoned."""

    generation: int
    step: int


@dataclass(frozen=True, slots=True)
class DeadPort:
    """An interface of a node that a probe found to lead nowhere, and the sentence that says so."""

    node_id: str
    interface: str
    text: str


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A port of ``host`` that was in trouble from ``since``, and is well since ``well`` (0: it is not yet).

    Both are the leader's wall-clock seconds. ``text`` goes on after the port's name.
    """

    host: str
    port: str
    code: str
    text: str
    since: float
    well: float = 0.0


@dataclass(frozen=True, slots=True)
class AvoidedPort:
    """A port that ``host`` should do without, since it was in trouble: ``why`` in one sentence."""

    host: str
    port: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What defines a generation. It exists exactly when its key does; numbers are never used twice.

    ``from_step`` is the training step from which an operator wants it to go on, -1 for the newest there is but for
    ``avoid_steps``, which are suspect, and what ``rewinds`` abandon. ``recorded_step`` is the last that was recorded as
    committed and counts, -1 for none. ``incarnation`` tells the job from an earlier one of the same name, in an etcd
    that is no more. ``unreachable`` are interfaces of its members that are not to be used.
    """

    generation: int
    restart_count: int
    reason: Reason
    members: tuple[Member, ...]
    world_size: int
    store_node: str
    store_address: str
    store_port: int
    from_step: int = -1
    avoid_steps: tuple[int, ...] = ()
    recorded_step: int = -1
    rewinds: tuple[Rewind, ...] = ()
    incarnation: str = ""
    unreachable: tuple[DeadPort, ...] = ()
    avoid_ports: tuple[AvoidedPort, ...] = ()
    _places: dict[str, Member] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {m.node_id: m for m in self.members})

    def member(self, node_id: str) -> Member | None:
        """The place of ``node_id``, or None if it has none in this generation."""
        return self._places.get(node_id)

    def notes_for(self, node_id: str) -> tuple[PortNote, ...]:
        """The interfaces of ``node_id`` that are not to be used, each with the reason."""
        return tuple(PortNote(port.interface, port.text) for port in self.unreachable if port.node_id == node_id)


@dataclass(frozen=True, slots=True)
class RankExit:
    """One rank's end. ``exit_code`` as subprocess tells it (negative: a signal), ``time`` in wall-clock seconds."""

    local_rank: int
    rank: int
    pid: int
    exit_code: int
    time: float
    error_file: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank that ended otherwise than with 0 while nobody had asked it to, and where."""

    host: str
    exit: RankExit


@dataclass(frozen=True, slots=True)
class Drain:
    """A host that an operator took out: ``nodes`` leave, and a node that joins after ``since`` (a revision) waits."""

    host: str
    nodes: tuple[str, ...]
    since: int
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """What is remembered of a job's generations. Times are the leader's wall-clock seconds: it outlives a leader.

    ``charged`` are the times of restarts that cost one, ``fruitless`` the restarts in a row that led nowhere,
    ``place`` and ``ranks`` where the last generation raised if it got nowhere. ``returns`` is how often in a row one
    failed that had gone on from checkpoint ``returned_to`` and got nowhere, ``suspects`` are checkpoints from which
    that was so too often (:mod:`elaunch.controller.suspects`).
    """

    charged: tuple[float, ...] = ()
    progressed: float | None = None
    step: int = -1
    checkpoint: int = -1
    fruitless: int = 0
    place: str = ""
    ranks: tuple[int, ...] = ()
    returned_to: int = -1
    returns: int = 0
    suspects: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """What a host was to blame for in ``generation``. ``code`` is that of the reason."""

    time: float
    generation: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What is held against a host. It is in quarantine from ``since`` to ``until``; both are 0 if it never was.

    ``times`` is how often it was, ``reason`` says why in one sentence, ``code`` is ``faults`` or ``operator``.
    """

    host: str
    faults: tuple[Fault, ...] = ()
    since: float = 0.0
    until: float = 0.0
    code: str = ""
    reason: str = ""
    times: int = 0

    def left(self, now: float) -> float:
        """Seconds of quarantine that are left at ``now``; 0 for a host that is free."""
        return max(0.0, min(self.until - now, self.until - self.since))


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a job has shown of its own pace, in seconds: a generation hands it to the next, a leader to its successor.

    ``step`` is a usual step, ``longest`` and ``second`` the longest pauses after the start, ``first`` the longest one
    of a start that went well, ``sections`` the longest time in each section. ``going`` is the last generation that has
    got going, 0 for none.
    """

    step: float = 0.0
    longest: float = 0.0
    second: float = 0.0
    first: float = 0.0
    sections: Mapping[str, float] = field(default_factory=dict)
    going: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where these are no seconds."""
        figures = (self.step, self.longest, self.second, self.first, *self.sections.values())
        if not all(0 <= figure < math.inf for figure in figures):
            raise ValueError("a pause, a step or a section of no number of seconds")


@dataclass(frozen=True, slots=True)
class State:
    """The job's state as its leader last wrote it. ``exit_code`` means something in a final phase only.

    ``verdict`` is the phase that an abort ends in ("" where the job goes on), ``charged`` whether it costs a restart,
    ``evidence`` whether stacks are taken first. ``world`` is the number of ranks that the job began with.
    A final state is for the nodes that had joined by then: those whose ``joined`` is at most ``horizon``.
    ``learnt`` is the job's pace as far as the next leader should know it.
    ``root`` is the first failure of the generation, so that a new leader can still tell it. The rest is what operators
    asked for: ``min_nodes`` and ``max_nodes`` (0: as in the spec), ``from_step`` of the next plan, hosts taken out.
    ``restored`` is the step from which the generation went on, -1 for from scratch, ``UNTOLD`` while that is not known;
    ``rewinds`` are those that still abandon checkpoints. ``links`` are ports that were in trouble, ``link_restarts``
    the times (wall clock) of the restarts for such.
    """

    phase: Phase
    generation: int
    restart_count: int
    reason: Reason
    exit_code: int = 0
    verdict: str = ""
    charged: bool = False
    horizon: int = 0
    root: Failure | None = None
    evidence: bool = False
    world: int = 0
    history: History = field(default_factory=History)
    hosts: tuple[HostRecord, ...] = ()
    min_nodes: int = 0
    max_nodes: int = 0
    from_step: int = -1
    drained: tuple[Drain, ...] = ()
    restored: int = UNTOLD
    rewinds: tuple[Rewind, ...] = ()
    incarnation: str = ""
    learnt: Learnt = field(default_factory=Learnt)
    links: tuple[LinkFault, ...] = ()
    link_restarts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError where no leader has written it."""
        if self.generation < 0 or self.restart_count < 0:
            raise ValueError(f"generation {self.generation}, restart {self.restart_count}: below 0")
        if self.verdict not in ("", *(phase.value for phase in Phase if phase.final)):
            raise ValueError(f"verdict={self.verdict!r} is no phase that a job ends in")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last committed checkpoint: it follows the data, and never leads it.

    ``digest`` is that of its manifest, ``bytes`` its size, ``seconds`` what it took, ``time`` when it was recorded, in
    the leader's wall-clock seconds, ``rank`` who told of it and on which ``host``.
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


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads: where its control server listens, and the token that its clients must show."""

    node_id: str
    address: str
    token: str


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
