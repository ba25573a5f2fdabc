"""What defines a generation: who takes part in it under which ranks, and from where it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from elaunch.rendezvous.records import Reason
from elaunch.topology.probe.facts import PortNote


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
