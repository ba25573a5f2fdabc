"""What a job remembers beyond a generation and a leader: of its restarts, hosts, ports, pace and time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


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
class Accounts:
    """What a job's time has gone into up to ``until``: ``seconds`` by activity, which add up to ``until - since``.

    ``activity`` is what goes on, since ``began``. ``restarts`` are counted by their reasons' codes. Of the present
    generation: ``first_step`` is the first step that it told (-1: none yet), ``working`` is since when it is at work,
    ``ended`` when it came to its end (0: not yet). All times are the leaders' wall clocks
    (:mod:`elaunch.metrics.goodput`).
    """

    since: float = 0.0
    until: float = 0.0
    began: float = 0.0
    activity: str = "waiting"
    seconds: Mapping[str, float] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)
    first_step: int = -1
    working: float = 0.0
    ended: float = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError where no leader has written it."""
        if not all(0 <= seconds < math.inf for seconds in (self.since, self.until, *self.seconds.values())):
            raise ValueError("accounts with no number of seconds")
