"""Which ports each rank lists, in its own order, and why."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.topology.binding import Reason, Refused, Wishes
from elaunch.topology.distance import Distances
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import listed, ordered
from elaunch.topology.override import Overridden
from elaunch.topology.placing import Placed
from elaunch.topology.preference import Tiers, preferences, without_device
from elaunch.topology.role import PortRole, Role

NEVER = ("bond_member", "virtual_function", "vlan", "no_rdma", "wireless", "usb")
"""Codes of ports that even ``all`` leaves out: the same wire again, or no way that the others of the list share."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is worked out once for all ranks. ``refused``: by ``Port.id``, the ports that cannot be used now."""

    topology: Topology
    distances: Distances
    roles: tuple[PortRole, ...]
    rails: dict[str, int]
    refused: dict[str, Refused]

    def usable(self, port: Port) -> bool:
        return port.id not in self.refused


@dataclass(frozen=True, slots=True)
class Picked:
    """The ports of one rank in its order, and why. ``asked``: ranks like it get some; ``own``: a list of its own."""

    ports: tuple[Port, ...]
    reasons: tuple[Reason, ...]
    asked: bool = True
    own: bool = False


def candidates(known: Known, policy: str, override: Overridden) -> tuple[Port, ...]:
    """The ports that ranks choose among, whatever their state, in the order of the list that they share."""
    if override.everyone is not None:
        return override.everyone
    if policy == "all":
        return ordered(r.port for r in known.roles if r.role is not Role.SOFTWARE and r.code not in NEVER)
    return ordered(r.port for r in known.roles if r.role is Role.COMPUTE)


def pick(
    known: Known, placed: tuple[Placed, ...], wishes: Wishes, override: Overridden, among: tuple[Port, ...]
) -> tuple[Picked, ...]:
    """The ports of each rank: by the map, or by the policy ``among`` these."""
    preferred = preferences(known.topology, known.distances, among)
    picked: list[Picked] = []
    for rank in placed:
        named = override.ports.get(rank.local_rank)
        if named is not None:
            picked.append(_by_map(known, named))
        elif not _asked(rank, wishes, override):
            text = "no other node" if not wishes.network else "no accelerator: the library finds its interface itself"
            picked.append(Picked((), (Reason("nics", "not_asked", text),), asked=False))
        else:
            device = rank.device
            tiers = preferred.get(device.id, ()) if device else without_device(among, rank.local_rank)
            picked.append(_by_policy(known, tiers, wishes, rank))
    return tuple(picked)


def _asked(rank: Placed, wishes: Wishes, override: Overridden) -> bool:
    """Under ``auto``, ports are bound where there is something for accelerators to reach."""
    if wishes.nic_policy in ("local", "all") or override.everyone is not None:
        return True
    return wishes.network and (rank.device is not None or rank.reason.code == "more_ranks_than_devices")


def _by_map(known: Known, named: tuple[Port, ...]) -> Picked:
    ports = tuple(p for p in named if known.usable(p))
    reasons = [Reason("nics", "mapped", f"{listed(p.id for p in ports)} by the operator's map")] if ports else []
    lost = [known.refused[p.id] for p in named if not known.usable(p)]
    return Picked(ports, (*reasons, *(Reason("nics", r.code, r.text) for r in lost)), own=True)


def _by_policy(known: Known, tiers: Tiers, wishes: Wishes, rank: Placed) -> Picked:
    alive = [found for tier in tiers if (found := tuple(p for p in tier if known.usable(p)))]
    if wishes.nic_policy == "local":
        alive = alive[:1]
    ports = tuple(p for tier in alive for p in tier)[: wishes.nics_per_rank]
    if not ports:
        return Picked((), ())
    reasons = [_of_first(known, ports[0], rank)]
    if rank.device is not None and not known.usable(tiers[0][0]):
        lost = known.refused[tiers[0][0].id]
        reasons.append(Reason("nics", "displaced", f"{lost.text}, and {ports[0].id} is the next best"))
    return Picked(ports, tuple(reasons), own=wishes.nic_policy == "local" or wishes.nics_per_rank is not None)


def _of_first(known: Known, port: Port, rank: Placed) -> Reason:
    if rank.device is None:
        return Reason("nics", "no_device", f"{port.id} first: there is no device that it could be near to")
    way = known.distances.level(rank.device, port)
    carried = known.distances.bandwidth(rank.device, port)
    speed = f", {carried:g} GB/s" if carried else ""
    return Reason("nics", "nearest", f"{port.id} is nearest to {rank.device.id} ({way.name}{speed})")
