"""All renderers together, and the user's own environment before all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.render import gloo, identity, libfabric, nccl, ucx, visible
from elaunch.topology.render.ground import Ground, Rendering, ports_of


class Library(Protocol):
    """A module that renders for one library."""

    def wanted(self, node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
        """What a rank should have."""

    def conflict(self, variable: str, text: str, would_be: str, node: NodeBinding) -> str:
        """What is to be said of a variable that the user has set to ``text``."""


LIBRARIES: tuple[Library, ...] = (nccl, gloo, ucx, libfabric)


def render(node: NodeBinding, ground: Ground) -> Rendering:
    """The variables of each rank of a node. What the user has set is left alone, and told where it is doubtful."""
    ground = replace(ground, ports=ports_of(node))
    conflicts: dict[str, str] = {}
    common = _of_libraries(node, node.ranks[0], ground, conflicts) if node.shared and node.ranks else None
    ranks = []
    for rank in node.ranks:
        env = common if common is not None else _of_libraries(node, rank, ground, conflicts)
        ranks.append({**env, **visible.wanted(node, rank, ground), **identity.wanted(node, rank, ground)})
    return Rendering(tuple(ranks), tuple(text for text in conflicts.values() if text))


def _of_libraries(node: NodeBinding, rank: RankBinding, ground: Ground, conflicts: dict[str, str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for library in LIBRARIES:
        for name, value in library.wanted(node, rank, ground).items():
            if name not in ground.user:
                env[name] = value
            elif name not in conflicts:
                conflicts[name] = library.conflict(name, ground.user[name], value, node)
    return env
