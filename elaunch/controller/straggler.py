"""Which ranks are slower than their peers: cumulative times in, news out. No clock in here.

In synchronous training all ranks take the same time for a step, as the quick ones wait for the slow. What differs is
where they spend it: the slow rank outside of collectives, all others in them. So a rank's *own* time is compared with
the median of its peers' (MegaScale, NSDI 2024, finds its stragglers by such timers around the computation; the median
is what one slow rank cannot move). Own time is taken per step where all ranks tell their steps, else as a share of the
time between collectives: both are the same measure, as a step takes the same time everywhere.

A straggler is slow all the time. A rank that does something alone now and then (it saves a checkpoint, writes a log)
has a few slow steps, however long they are: so not the mean of a window counts, but what holds for three quarters of
its steps. A straggler is told once, and told again when it has caught up. Nothing is stopped for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from elaunch.controller.sightings import RankView
from elaunch.controller.window import MOST_SPANS, Mark, Window, begin

MOST_PEERS = 256  # ranks that a suspect is compared with
SUSTAINED = 0.75  # of the steps of a window
LEAST_EXCESS = 0.1  # seconds that the rank was behind in a window: a scheduler's hiccup is no news


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


class Stragglers:
    """Watches one generation's ranks."""

    def __init__(self, policy: StragglerPolicy | None = None) -> None:
        self._policy = policy or StragglerPolicy()
        self._marks: dict[int, list[Mark]] = {}
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
        windows: dict[int, Window] = {}
        for view in here:
            if found := self._window(view, stepping):
                windows[view.rank] = found
        if len(windows) < 2:
            return ()
        suspects = self._suspects(windows)
        # Like is compared with like: what holds for half of a rank's steps with what holds for half of its peers'.
        usual = {rank: windows[rank].held(0.5) for rank in (*windows,)[:: len(windows) // MOST_PEERS + 1] if suspects}
        changed = [
            news
            for view in here
            if view.rank in suspects and (news := self._judge(view, windows[view.rank], _peers(usual, view.rank)))
        ]
        return tuple(sorted(changed, key=lambda news: (-news.ratio, news.rank)))

    def _suspects(self, windows: Mapping[int, Window]) -> set[int]:
        """Those worth a closer look: there may be tens of thousands of ranks. Told ones, and those slow on average."""
        peers = without_each([window.rate for window in windows.values()])
        least = SUSTAINED * self._policy.factor
        slow = {
            rank for (rank, window), peer in zip(windows.items(), peers, strict=True) if window.rate >= least * peer
        }
        return slow | (self._slow.keys() & windows.keys())

    def _window(self, view: RankView, stepping: bool) -> Window | None:
        """The newest window of a rank; None while it is too short or was broken by a section."""
        rank = view.progress
        done = rank.step if stepping else sum(group.started for group in rank.groups)
        mark = Mark(done, rank.own_seconds, rank.own_seconds + rank.waited_seconds)
        marks = self._marks.setdefault(view.rank, [])
        broken = marks and (mark.done < marks[-1].done or mark.own < marks[-1].own or mark.total < marks[-1].total)
        if rank.section or broken:
            marks.clear()
            if rank.section:
                return None
        if not marks or mark.done > marks[-1].done:  # what a rank does alone for long is one span
            marks.append(mark)
        first = begin(marks, stepping)
        del marks[: max(0, first, len(marks) - MOST_SPANS)]
        return Window(tuple(marks), stepping) if first >= 0 else None

    def _judge(self, view: RankView, window: Window, peers: float) -> Straggler | None:
        policy, told = self._policy, view.rank in self._slow
        low, high = window.held(SUSTAINED), window.held(1.0 - SUSTAINED)
        slow = _ratio(low, peers) >= policy.factor and (low - peers) * window.units >= policy.least_excess
        caught_up = _ratio(high, peers) < policy.recovered
        if not (caught_up if told else slow):
            return None
        own = window.held(0.5)
        ratio = _ratio(own, peers)
        self._slow.pop(view.rank) if told else self._slow.update({view.rank: ratio})
        text = _sentence(view, ratio, own, peers, window.stepping, told)
        return Straggler(view.rank, view.host, view.node_id, ratio, own, peers, told, text)


def _peers(usual: Mapping[int, float], rank: int) -> float:
    return median(rate for peer, rate in usual.items() if peer != rank)


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
