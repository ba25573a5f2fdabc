"""What happens to a job: the events that its state machine takes."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.controller.node_status import NodeStatus
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import Node, Reason


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node's key appeared or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node's key is gone: its lease ended or was given back, so nothing of it runs any more."""

    node_id: str


@dataclass(frozen=True, slots=True)
class StatusReceived:
    """An agent told what it runs."""

    status: NodeStatus


@dataclass(frozen=True, slots=True)
class PlanCommitted:
    """The plan of ``generation`` stands in etcd."""

    generation: int


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The ranks of ``generation`` do not get on, and never will: ``reason`` names the culprit, ``host`` is its own."""

    generation: int
    reason: Reason
    host: str = ""


@dataclass(frozen=True, slots=True)
class LinkFailed:
    """A port that ranks of ``generation`` use is broken, as ``text`` says."""

    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The ranks of ``generation`` do not make one job: ``text`` says which, and what differs."""

    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """An operator's command stands in etcd; ``sealed`` by one, where the job asks for that."""

    operation: Operation
    sealed: bool = True


@dataclass(frozen=True, slots=True)
class OperationsWritten:
    """The present standing of these operations stands in etcd."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = (
    NodeJoined
    | NodeLost
    | StatusReceived
    | PlanCommitted
    | Diagnosed
    | LinkFailed
    | StartRefused
    | OperatorCommand
    | OperationsWritten
    | Tick
)
