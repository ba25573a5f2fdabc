"""The stacks of a node's ranks for its leader: ranks that stand at the same place share one text. Bounded."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.agent.evidence import RankEvidence
from elaunch.controller.node_status import StackGroup

MOST_GROUPS = 8
MOST_TEXT = 4096  # characters of one


def grouped(ranks: Sequence[RankEvidence]) -> tuple[StackGroup, ...]:
    """What few ranks do comes first: that is where a hang begins."""
    alike: dict[str, list[int]] = {}
    for rank in ranks:
        text = "\n".join((rank.doing, *rank.stack))[:MOST_TEXT]
        alike.setdefault(text, []).append(rank.rank)
    few = sorted(alike.items(), key=lambda item: (len(item[1]), item[1]))
    return tuple(StackGroup(tuple(numbers), text) for text, numbers in few[:MOST_GROUPS])
