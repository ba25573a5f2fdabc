"""A job's state, as its leader writes it and the next one reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from elaunch.rendezvous.memory import Accounts, History, HostRecord, Learnt, LinkFault
from elaunch.rendezvous.plan import Rewind
from elaunch.rendezvous.records import Phase, Reason

UNTOLD: Final = -2


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
    the times (wall clock) of the restarts for such. ``accounts`` are what the job's time has gone into.
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
    accounts: Accounts = field(default_factory=Accounts)

    def __post_init__(self) -> None:
        """Raises ValueError where no leader has written it."""
        if self.generation < 0 or self.restart_count < 0:
            raise ValueError(f"generation {self.generation}, restart {self.restart_count}: below 0")
        if self.verdict not in ("", *(phase.value for phase in Phase if phase.final)):
            raise ValueError(f"verdict={self.verdict!r} is no phase that a job ends in")
