"""Which ranks are slower than their peers: cumulative times in, news out. No clock in here.

In synchronous training all ranks take the same time for a step, as the quick ones wait for the slow. What differs is
where they spend it: the slow rank outside of collectives, all others in them. So a rank's *own* time is compared with
the median of its peers' (MegaScale, NSDI 2024, finds its stragglers by such timers around the computation; the median
is what one slow rank cannot move). Own time is taken per step where all ranks tell their steps, else as a share of the
time that passed: both are the same measure, as a step takes the same time everywhere.

One slow step is no straggler: the two halves of the newest window must both be slow. A straggler is told once, and told
again when it has caught up. Nothing is stopped for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elaunch.controller.sightings import RankView

HALF_STEPS = 5  # steps that each half of a window has at least: so a slow rank is told within 20, heartbeats included
HALF_SECONDS = 2.0  # the same for programs that do not tell their steps
LEAST_EXCESS = 0.05  # seconds that the rank was behind in each half: a scheduler's hiccup is no news


@dataclass(frozen=True, slots=True)
class StragglerPolicy:
    """``factor``: of the peers' median own time (``--straggler-factor``), 0 for never; ``recovered``: when it is over.

    2.0 is far from what a healthy cluster shows (ranks differ by some percent) and well below what a broken fan, a
    throttled device or a busy neighbour does to one.
    """

    factor: float = 2.0
    least_excess: float = LEAST_EXCESS

    @property
    def recovered(self) -> float:
        """A ratio below which a straggler has caught up: half-way between it and its peers."""
        return 1.0 + (self.factor - 1.0) / 2


@dataclass(frozen=True, slots=True)
class Straggler:
    """``rank`` is (or, with ``recovered``, no longer is) ``ratio`` times as slow as the median of its peers.

    ``own`` and ``peers`` are its and their seconds outside of collectives per step, or per second without steps.
    """

    rank: int
    host: str
    node_id: str
    ratio: float
    own: float
    peers: float
    recovered: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Mark:
    step: int
    own: float
    total: float


@dataclass(frozen=True, slots=True)
class _Pace:
    """What one half of the window shows of a rank: own seconds, and in how many units (steps, or seconds)."""

    own: float
    units: float

    @property
    def rate(self) -> float:
        return self.own / self.units


class Stragglers:
    """Watches one generation's ranks."""

    def __init__(self, policy: StragglerPolicy | None = None) -> None:
        self._policy = policy or StragglerPolicy()
        self._marks: dict[int, list[_Mark]] = {}
        self._slow: dict[int, float] = {}

    @property
    def ranks(self) -> Mapping[int, float]:
        """The ranks that are stragglers now, with the ratio at which they were told."""
        return self._slow

    def observe(self, views: Iterable[RankView]) -> tuple[Straggler, ...]:
        """Take in what is seen of the ranks now; the ranks whose verdict has changed by it, the slowest first."""
        here = [view for view in views if view.progress.attached]
        if self._policy.factor <= 0 or len(here) < 2:
            return ()
        stepping = all(view.progress.step >= 0 for view in here)
        halves: dict[int, tuple[_Pace, _Pace]] = {}
        for view in here:
            if found := self._halves(view, stepping):
                halves[view.rank] = found
        if len(halves) < 2:
            return ()
        older = without_each([pace[0].rate for pace in halves.values()])
        newer = without_each([pace[1].rate for pace in halves.values()])
        peers = dict(zip(halves, zip(older, newer, strict=True), strict=True))
        changed = [
            news
            for view in here
            if view.rank in halves and (news := self._judge(view, halves[view.rank], peers[view.rank], stepping))
        ]
        return tuple(sorted(changed, key=lambda news: (-news.ratio, news.rank)))

    def _halves(self, view: RankView, stepping: bool) -> tuple[_Pace, _Pace] | None:
        """The two halves of the newest window of a rank; None while it is too short or was broken by a section."""
        rank = view.progress
        mark = _Mark(rank.step, rank.own_seconds, rank.own_seconds + rank.waited_seconds)
        marks = self._marks.setdefault(view.rank, [])
        broken = marks and (mark.step < marks[-1].step or mark.own < marks[-1].own or mark.total < marks[-1].total)
        if rank.section or broken:
            marks.clear()
            if rank.section:
                return None
        if not marks or (mark.step > marks[-1].step if stepping else mark.total > marks[-1].total):
            marks.append(mark)
        middle = _before(marks, len(marks) - 1, stepping)
        first = _before(marks, middle, stepping)
        if first < 0:
            return None
        del marks[:first]
        return _pace(marks[0], marks[middle - first], stepping), _pace(marks[middle - first], marks[-1], stepping)

    def _judge(
        self, view: RankView, halves: tuple[_Pace, _Pace], peers: tuple[float, float], stepping: bool
    ) -> Straggler | None:
        ratios = [_ratio(half.rate, peer) for half, peer in zip(halves, peers, strict=True)]
        excesses = [half.own - peer * half.units for half, peer in zip(halves, peers, strict=True)]
        told = view.rank in self._slow
        slow = min(ratios) >= self._policy.factor and min(excesses) >= self._policy.least_excess
        caught_up = max(ratios) < self._policy.recovered
        if not (caught_up if told else slow):
            return None
        ratio = ratios[1] if told else min(ratios)
        own, peer = halves[1].rate, peers[1]
        self._slow.pop(view.rank) if told else self._slow.update({view.rank: ratio})
        text = _sentence(view, ratio, own, peer, stepping, told)
        return Straggler(view.rank, view.host, view.node_id, ratio, own, peer, told, text)


def without_each(rates: Sequence[float]) -> list[float]:
    """For each of at least two rates, the median of all the others."""
    order = sorted(range(len(rates)), key=rates.__getitem__)
    values = [rates[i] for i in order]
    rest = len(rates) - 1
    low, high = (rest - 1) // 2, rest // 2
    found = [0.0] * len(rates)
    for place, index in enumerate(order):
        found[index] = (values[low + (place <= low)] + values[high + (place <= high)]) / 2
    return found


def _before(marks: Sequence[_Mark], end: int, stepping: bool) -> int:
    """The last mark that is half a window before the one at ``end``; -1 for none."""
    for place in range(end - 1, -1, -1):
        if stepping and marks[end].step - marks[place].step >= HALF_STEPS:
            return place
        if not stepping and marks[end].total - marks[place].total >= HALF_SECONDS:
            return place
    return -1


def _pace(start: _Mark, end: _Mark, stepping: bool) -> _Pace:
    return _Pace(end.own - start.own, float(end.step - start.step) if stepping else end.total - start.total)


def _ratio(own: float, peers: float) -> float:
    return own / max(peers, 1e-6)


def _sentence(view: RankView, ratio: float, own: float, peers: float, stepping: bool, recovered: bool) -> str:
    who = f"rank {view.rank} ({view.host})"
    figures = (
        f"{own * 1000:.0f} ms of its own per step against {peers * 1000:.0f} ms, the median of its peers"
        if stepping
        else f"at work {own:.0%} of the time against {peers:.0%}, the median of its peers"
    )
    if recovered:
        return f"{who} is no straggler any more: {figures}"
    return f"{who} is a straggler, {ratio:.1f} times as slow as its peers: {figures}"
