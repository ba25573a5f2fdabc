"""What the renderers are given beside the bindings, and what they give back. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import Port

TOLD = (
    "ELAUNCH_TOPOLOGY_DIGEST",
    "ELAUNCH_DEVICE_ID",
    "ELAUNCH_NICS",
    "ELAUNCH_NUMA",
    "ELAUNCH_RAIL",
    "ELAUNCH_HOST",
)
"""What ranks are told of where they are: elaunch's own, whatever stood there before."""


@dataclass(frozen=True, slots=True)
class Ground:
    """``user`` is the environment that the agent was started in: what it sets is never overwritten.

    ``own`` is the interface that carries the agent's own address, "" where that is a loopback or one of software.
    ``topology_file`` is an NCCL file that describes this machine. ``every_interface``: Gloo gets all chosen interfaces,
    not the first alone. ``virtual``: each rank is to see its own device only; ``mapped``: devices were assigned by the
    operator. ``host`` and ``digest`` are told to the ranks. ``ports`` are all that are known of, filled in by
    ``rendering.render``.
    """

    user: Mapping[str, str] = field(default_factory=dict)
    own: str = ""
    topology_file: str = ""
    every_interface: bool = False
    virtual: bool = False
    mapped: bool = False
    host: str = ""
    digest: str = ""
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendering:
    """The variables to set for each rank, by local rank, and a sentence for each that the user has set otherwise."""

    ranks: tuple[Mapping[str, str], ...] = ()
    conflicts: tuple[str, ...] = ()


def ports_of(node: NodeBinding) -> tuple[Port, ...]:
    """Every port that is known of, chosen or refused, each once."""
    chosen = [port for rank in node.ranks for port in rank.ports]
    every = [*node.shared, *chosen, *(refused.port for refused in node.refused)]
    return tuple({port.id: port for port in every}.values())


def listed(node: NodeBinding, rank: RankBinding) -> tuple[Port, ...]:
    """The ports that a rank's libraries are told of, in order: the same for all ranks, unless each has its own."""
    return node.shared or rank.ports
