"""How long a job may make no progress before that is a hang: learnt from the job's own steps and pauses.

Until a generation has got going (field: first iterations compile and warm up) it has ``START`` floors, 600 s by
default: torch's own collectives give up then as well (``torch.distributed`` with NCCL: 10 minutes). Afterwards a rank
is late when it takes longer than the job has ever been seen to, by a factor, and never under the floor.

The floor is 60 s. What is honest and cannot be foreseen lasts that long (a read that a file server repeats after its
time-out of 60 s, a garbage collection, a burst of ECC retries); what is gained under it is little beside the time of a
restart. (NVIDIA's resiliency extension learns likewise, five times the longest that it saw, but only where it is asked
to, and by sections that the program names.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from elaunch.controller.gaps import Gap, longest
from elaunch.controller.limits import Limits
from elaunch.progress import Heartbeat, RankProgress

FLOOR = 60.0  # seconds
START = 10.0  # floors: before a generation has got going; also a section's share of the deadline around it
ORDINARY = 3.0  # times the pause that was seen twice
ONCE = 1.5  # times the longest pause, which may have been an accident
STEP = 25.0  # steps: an honest one may take 20 times as long, with a shape that is compiled anew
LONG_STEP = 5.0  # of steps so long that this would be more than a start's deadline
WARM_STEPS, WARM_COLLECTIVES = 5, 50  # progress that a generation makes until it has got going
WARM_FLOORS = 5.0  # floors that it takes as well where no steps are told: one step may be many collectives
STEPS_KEPT = 64
SECTIONS_KEPT = 256  # names of sections: a program may make up a new one for each step


@dataclass(frozen=True, slots=True)
class Patience:
    """``--hang-timeout`` and ``--hang-floor``: ``timeout`` is fixed seconds, None to learn it, 0 for never."""

    timeout: float | None = None
    floor: float = FLOOR

    @classmethod
    def parse(cls, timeout: str, floor: float = FLOOR) -> Patience:
        """From ``auto``, ``off`` or seconds. Raises ValueError for anything else."""
        words: dict[str, float | None] = {"auto": None, "off": 0.0}
        seconds = words[timeout] if timeout in words else float(timeout)
        if not (0.0 < floor < float("inf")) or (timeout not in words and not 0.0 < (seconds or 0.0) < float("inf")):
            raise ValueError(f"a hang's timeout is auto, off or seconds above 0, not {timeout} (floor {floor})")
        return cls(seconds, floor)


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a job has shown of itself, in seconds: a generation hands it to the next, a leader can to its successor.

    ``step`` is a usual step, ``longest`` and ``second`` the longest pauses after the start, ``first`` the longest one
    of a start that went well, ``sections`` the longest time in each section.
    """

    step: float = 0.0
    longest: float = 0.0
    second: float = 0.0
    first: float = 0.0
    sections: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Rank:
    """When progress, step and section last changed (by the leader's clock), and whether it was stopped since."""

    mark: tuple[int, str, int]
    changed: float
    stepped: float
    entered: float
    stopped: bool


class Deadlines:
    """Learns from the heartbeats of one job. ``now`` is the leader's monotonic clock, in seconds, throughout."""

    def __init__(self, patience: Patience, learnt: Learnt | None = None) -> None:
        self._patience = patience
        self._known = learnt or Learnt()
        self._gaps: tuple[Gap, ...] = ()
        self._steps: deque[float] = deque(maxlen=STEPS_KEPT)
        self._first = self._known.first
        self._sections = dict(self._known.sections)
        self.begin()

    def begin(self) -> None:
        """A generation starts, or is seen for the first time: what was learnt stays, patience is that of a start."""
        self._ranks: dict[int, _Rank] = {}
        self._seen: tuple[int, int, float] | None = None  # step, collectives and time of the first progress
        self._warm_at: float | None = None  # since when the generation has got going
        self._starting = 0.0  # the longest pause of this start: learnt when it has gone well
        self._inside: set[int] = set()  # ranks in a section, and until when one was: who waits for them is not pausing
        self._until = float("-inf")

    def observe(self, beat: Heartbeat, now: float) -> None:
        """Take in a heartbeat of the generation that runs."""
        for rank in beat.ranks:
            if rank.attached:
                self._rank(rank, now, leading=rank is beat.ranks[0])

    def limits(self) -> Limits:
        """For how long ranks may make no progress, as of what is known now."""
        timeout, floor = self._patience.timeout, self._patience.floor
        if timeout == 0:
            return Limits(hang=None)
        hang = self._learnt_hang(floor) if timeout is None else timeout
        sections = {name: ORDINARY * seconds for name, seconds in self._sections.items()}
        section = START * hang
        return Limits(hang, section, {name: max(section, seconds) for name, seconds in sections.items()})

    @property
    def learnt(self) -> Learnt:
        """All that is known of the job so far."""
        two = sorted([*(gap.length for gap in self._gaps), self._known.longest, self._known.second])[-2:]
        step = median(self._steps) if self._steps else self._known.step
        return Learnt(step, two[1], two[0], self._first, dict(self._sections))

    @property
    def warm(self) -> bool:
        """The generation has got going."""
        return self._warm_at is not None

    def _learnt_hang(self, floor: float) -> float:
        known = self.learnt
        of_steps = max(LONG_STEP * known.step, min(STEP * known.step, START * floor))
        ordinary = max(floor, of_steps, ORDINARY * known.second, ONCE * known.longest)
        if self.warm:
            return ordinary
        return max(START * floor, ordinary, STEP * known.step, ORDINARY * known.first)

    def _rank(self, rank: RankProgress, now: float, leading: bool) -> None:
        mark = (rank.step, rank.section, sum(group.started + group.finished for group in rank.groups))
        changed, stepped = now - rank.progress_age, now - rank.step_age
        stopped = rank.state in "Tt"
        old = self._ranks.get(rank.rank)
        if old is None:
            self._ranks[rank.rank] = _Rank(mark, changed, stepped, changed, stopped)
            self._inside |= {rank.rank} if rank.section else set()
            return
        old.stopped |= stopped
        if mark == old.mark:
            return
        if not old.mark[1] and not old.stopped and not self._inside and old.changed >= self._until:
            self._paused(Gap(old.changed, max(old.changed, changed)))
        if leading and rank.step > old.mark[0] >= 0:
            self._steps.append(max(0.0, stepped - old.stepped) / (rank.step - old.mark[0]))
        moved = rank.section != old.mark[1]
        if moved and old.mark[1]:
            self._left(rank.rank, old, changed)
        if rank.section:
            self._inside.add(rank.rank)
        self._ranks[rank.rank] = _Rank(mark, changed, stepped, changed if moved else old.entered, stopped)
        self._progress(rank, changed)

    def _left(self, rank: int, old: _Rank, now: float) -> None:
        name = old.mark[1]
        if name in self._sections or len(self._sections) < SECTIONS_KEPT:
            self._sections[name] = max(self._sections.get(name, 0.0), now - old.entered)
        self._inside.discard(rank)
        self._until = max(self._until, now)

    def _paused(self, gap: Gap) -> None:
        if self._warm_at is not None and gap.start >= self._warm_at:
            if gap.length > 0 and (not self._gaps or len(self._gaps) < 2 or gap.length > self._gaps[1].length):
                self._gaps = longest(self._gaps, gap)
        else:
            self._starting = max(self._starting, gap.length)

    def _progress(self, rank: RankProgress, at: float) -> None:
        """Has the generation got going? By steps where they are told, else by collectives and time."""
        if self.warm:
            return
        collectives = max((group.started for group in rank.groups), default=0)
        if self._seen is None or (self._seen[0] < 0 <= rank.step):
            self._seen = (rank.step, collectives, at)
        step, before, since = self._seen
        if step >= 0:
            going = rank.step >= step + WARM_STEPS
        else:
            going = at >= since + WARM_FLOORS * self._patience.floor and collectives >= before + WARM_COLLECTIVES
        if going:
            self._warm_at = at
            self._first = max(self._first, self._starting)
