"""How long a job may make no progress before that is a hang: learnt from the job's own steps and pauses.

What is learnt is handed from one generation to the next, and from one leader to its successor (handover.py);
patience.py tells what follows from it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

from elaunch.controller.gaps import Gap, longest
from elaunch.controller.handover import handed_on, worth_telling
from elaunch.controller.limits import Limits
from elaunch.controller.patience import Patience, in_section, ordinary, starting
from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.memory import Learnt

WARM_STEPS, WARM_COLLECTIVES = 5, 50  # progress that a generation makes until it has got going
WARM_FLOORS = 5.0  # floors that it takes as well where no steps are told: one step may be many collectives
STEPS_KEPT = 64
SECTIONS_KEPT = 256  # names of sections: a program may make up a new one for each step


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
        self._going = self._known.going
        self.begin()

    def begin(self, generation: int = 0) -> None:
        """A generation starts, or is seen for the first time: what was learnt stays, patience is that of a start.

        One that got going under the leader before goes on so.
        """
        self._generation = generation
        self._ranks: dict[int, _Rank] = {}
        self._seen: tuple[int, int, float] | None = None  # step, collectives and time of the first progress
        # Since when the generation has got going.
        self._warm_at: float | None = float("-inf") if generation and generation == self._going else None
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
        hang = (ordinary if self.warm else starting)(self.learnt, floor) if timeout is None else timeout
        sections = {name: in_section(seconds, hang) for name, seconds in self._sections.items()}
        return Limits(hang, in_section(0.0, hang), sections)

    @property
    def learnt(self) -> Learnt:
        """All that is known of the job so far."""
        two = sorted([*(gap.length for gap in self._gaps), self._known.longest, self._known.second])[-2:]
        step = median(self._steps) if self._steps else self._known.step
        return Learnt(step, two[1], two[0], self._first, dict(self._sections), self._going)

    def handed_on(self, told: Learnt) -> Learnt:
        """What the next leader is to know, where ``told`` is what it would: that, as long as it comes to the same."""
        found = handed_on(self.learnt, self._patience)
        return found if worth_telling(told, found, self._patience) else told

    @property
    def warm(self) -> bool:
        """The generation has got going."""
        return self._warm_at is not None

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
            self._going = max(self._going, self._generation)
            self._first = max(self._first, self._starting)
