"""What a node's ranks are bound by where no port meets all that was wished. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from elaunch.topology.binding import Wishes
from elaunch.topology.machine import Topology
from elaunch.topology.render import nccl


def free(wishes: Wishes) -> bool:
    """Whether the operator leaves the choice of ports to the policy."""
    return wishes.nic_policy == "auto" and not wishes.nic_map


def weaker(
    topology: Topology, wishes: Wishes, own: Sequence[str], user: Mapping[str, str]
) -> Iterator[tuple[Wishes, str]]:
    """Wishes that more ports meet, the best first, each with what is to be said of it.

    ``own`` are the interfaces at which this agent is reached: where there is no RDMA they are a way, be they of
    software as all of a container are. ``user`` is the environment that the user set.
    """
    for kept in range(len(wishes.avoid) - 1, -1, -1):
        names = ", ".join(name for name, _ in wishes.avoid[kept:])
        yield replace(wishes, avoid=wishes.avoid[:kept]), f"going on with {names} all the same"
    if wishes.unreachable:  # the probe asks over UDP, which a firewall may drop
        sentence = "going on with those that the probe found to lead nowhere"
        yield replace(wishes, avoid=(), unreachable=()), sentence
    if chosen := nccl.chosen_by_user(user, topology.ports):
        yield replace(wishes, network=False), f"going on with {chosen}, which is set in the environment"
    ways = [name for name in own if name not in wishes.exclude]
    if ways and free(wishes) and not any(p.rdma and not p.software for p in topology.ports):
        yield replace(wishes, network=False), f"going on by sockets: this agent is reached over {ways[0]}"
