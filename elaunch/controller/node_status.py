"""What an agent says of itself to its leader: values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from elaunch.rendezvous.state import RankExit
from elaunch.reports import Ask, Line
from elaunch.start_record import StartRecord
from elaunch.topology.probe.facts import Interface, Report


class RunPhase(Enum):
    """How far a node is with the generation that it last heard of."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def at_rest(self) -> bool:
        """Nothing of the generation is alive on the node."""
        return self in (RunPhase.NONE, RunPhase.STOPPED, RunPhase.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node says to a request of an operator, named by the operation's id."""

    id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks whose main threads have the same stack, and what it is."""

    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """All that an agent says of itself; each status replaces the one before.

    ``evidence`` is where what was saved of this generation's ranks lies, and what it says. ``asks`` and ``lines`` are
    what ranks tell of checkpoints, as long as no leader has answered it. ``start_code`` is the code of ``start_error``,
    ``start_exit_code`` what the node's agent ends with for it; "" and 0 stand for a plain StartError.
    ``interfaces`` may carry traffic between ranks, ``probe`` is the last that it was asked for.
    ``starts`` is how the starts of this generation's ranks stand.
    ``leaving_code`` is why the whole job is to stop, "" for an operator's Ctrl-C. ``stacks`` were saved with the
    evidence.
    """

    node_id: str
    generation: int = 0
    phase: RunPhase = RunPhase.NONE
    exits: tuple[RankExit, ...] = ()
    store_port: int = 0
    leaving: bool = False
    leaving_reason: str = ""
    leaving_exit_code: int = 0
    stop_job: bool = False
    start_error: str = ""
    answers: tuple[Answer, ...] = ()
    evidence: str = ""
    asks: tuple[Ask, ...] = ()
    lines: tuple[Line, ...] = ()
    start_code: str = ""
    start_exit_code: int = 0
    interfaces: tuple[Interface, ...] = ()
    probe: Report | None = None
    starts: tuple[StartRecord, ...] = ()
    leaving_code: str = ""
    stacks: tuple[StackGroup, ...] = ()
