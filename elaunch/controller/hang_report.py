"""A hang as it was found, for whoever looks at it later: who is to blame, who waits for whom, what the stacks say.

The ranks are gone soon after; this is kept until the next hang. Bounded, whatever thousands of nodes send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elaunch.controller.blame import Hang
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.sightings import RankView
from elaunch.controller.waits import Wait, waits

MOST_CULPRITS = 16
MOST_WAITS = 16
MOST_STACKS = 64  # different ones
MOST_EVIDENCE = 32  # nodes that say where theirs lies
_SPANS = 256  # of ranks in one collective


@dataclass(slots=True)
class HangReport:
    """``time`` is the wall clock in seconds, ``stacks`` the ranks and the first host that have each text."""

    generation: int
    time: float
    hang: Hang
    culprits: tuple[RankView, ...] = ()
    waits: tuple[Wait, ...] = ()
    evidence: dict[str, str] = field(default_factory=dict)
    stacks: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)

    def hear(self, status: NodeStatus, host: str) -> None:
        """Take in what a node has saved of this generation's ranks."""
        if status.generation != self.generation or not status.evidence or status.node_id in self.heard:
            return  # each status says it anew
        self.heard.add(status.node_id)
        if len(self.evidence) < MOST_EVIDENCE:
            self.evidence[status.node_id] = f"{host}: {status.evidence}"
        for group in status.stacks:
            known = self.stacks.get(group.text)
            if known is not None:
                known[1].extend(group.ranks)
            elif len(self.stacks) < MOST_STACKS:
                self.stacks[group.text] = (host, list(group.ranks))


def reported(hang: Hang, generation: int, views: Sequence[RankView], wall: float) -> HangReport:
    """The report of a hang that is found now."""
    by_rank = {view.rank: view for view in views}
    named = [by_rank.get(culprit.rank) for culprit in hang.culprits[:MOST_CULPRITS]]
    return HangReport(
        generation, wall, hang, tuple(view for view in named if view is not None), waits(views)[:MOST_WAITS]
    )


def spans(ranks: Iterable[int]) -> list[int]:
    """Ranks as first, last, first, last, ...; of very many spans the first."""
    found: list[int] = []
    for rank in sorted(set(ranks)):
        if found and found[-1] == rank - 1:
            found[-1] = rank
        elif len(found) < 2 * _SPANS:
            found += [rank, rank]
    return found
