"""The newest heartbeat of each node of one generation, as the views that the verdicts are made from.

What one heartbeat cannot tell is added here from the one before: how long a rank has been in its state without using
the processor, and how much of a core it used in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from elaunch.progress import Heartbeat, RankProgress


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank's progress and where it runs.

    ``state_age`` is how many seconds the rank was seen in the same state with no processor time used, ``cpu_share``
    how much of one core it used between the last two heartbeats (None before the second).
    """

    progress: RankProgress
    host: str
    node_id: str
    state_age: float = 0.0
    cpu_share: float | None = None

    @classmethod
    def unseen(cls, rank: int) -> RankView:
        """A rank of which nothing is heard."""
        return cls(RankProgress(rank, 0, 0), "", "")

    @property
    def rank(self) -> int:
        return self.progress.rank

    @property
    def waiting(self) -> bool:
        """The rank is inside a collective."""
        return any(group.waiting for group in self.progress.groups)

    @property
    def ended(self) -> bool:
        """The process is a corpse: how it ended is told by its exit, not by its page."""
        return self.progress.state in ("Z", "X")


@dataclass(frozen=True, slots=True)
class _Node:
    heard: float
    views: tuple[RankView, ...]


class Sightings:
    """What is known of the ranks of ``generation``. Times are seconds of the leader's monotonic clock."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._nodes: dict[str, _Node] = {}
        self.ending = False
        """A rank that was seen is seen no more, while its node goes on: it has ended, and well."""

    def heard(self, beat: Heartbeat, host: str, now: float, awake: float = -inf) -> bool:
        """Take a node's heartbeat in. False, and nothing happens, if it is of another generation.

        The leader runs without a gap since ``awake``: heartbeats that waited for it meanwhile were no such time apart.
        """
        if beat.generation != self.generation:
            return False
        old = self._nodes.get(beat.node_id)
        before = {view.rank: view for view in old.views} if old else {}
        passed = now - max(old.heard, awake) if old else 0.0
        views = tuple(_view(rank, host, beat.node_id, before.get(rank.rank), passed) for rank in beat.ranks)
        self._nodes[beat.node_id] = _Node(now, views)
        self.ending |= not before.keys() <= {view.rank for view in views if not view.ended}
        return True

    def forget(self, node_id: str) -> None:
        """The node is gone."""
        self._nodes.pop(node_id, None)

    def views(self) -> tuple[RankView, ...]:
        """Every rank that was heard of, by rank; those that have ended are left out."""
        found = [view for node in self._nodes.values() for view in node.views if not view.ended]
        return tuple(sorted(found, key=lambda view: view.rank))


def _view(progress: RankProgress, host: str, node_id: str, old: RankView | None, passed: float) -> RankView:
    if old is None or old.progress.pid != progress.pid or passed <= 0:
        return RankView(progress, host, node_id)
    used = progress.cpu_seconds - old.progress.cpu_seconds
    same = progress.state == old.progress.state and used <= 0
    return RankView(progress, host, node_id, old.state_age + passed if same else 0.0, max(0.0, used / passed))
