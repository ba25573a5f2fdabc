"""From a machine and the operator's wishes to what each rank is bound to. Values in, values out."""

from __future__ import annotations

from elaunch.errors import NoRouteError, UsageError
from elaunch.topology import nicmap, rails, remarks
from elaunch.topology.binding import NIC_POLICIES, NodeBinding, RankBinding, Reason, Wishes
from elaunch.topology.cpubind import CpuBinding, bind_cpus
from elaunch.topology.distance import Distances
from elaunch.topology.left_out import left_out, no_route
from elaunch.topology.machine import Port, Topology
from elaunch.topology.override import Overridden, overridden
from elaunch.topology.picking import Known, Picked, candidates, pick
from elaunch.topology.placing import Placed, place
from elaunch.topology.role import Role
from elaunch.topology.roles import roles
from elaunch.topology.usable import refusal, routed


def bind(topology: Topology, slots: int, wishes: Wishes) -> NodeBinding:
    """Device, ports, rail, CPUs and memory of each of ``slots`` local ranks, each choice with its reason.

    Raises NoRouteError where ranks of other nodes are to be reached and no port is left (never with
    ``wishes.network`` false, nor for ranks that have no device and asked for no port), and UsageError for a wish that
    this machine cannot be held to: an unknown name, a wrong number.
    """
    policy, nic_map = _checked(wishes)
    placed = place(topology, slots, wishes)
    known = _known(topology, wishes)
    override = overridden(topology, placed, nic_map, known.roles)
    among = candidates(known, policy, override)
    picked = pick(known, placed, wishes, override, among)
    if wishes.network:
        _demand_routes(known, placed, picked, policy, override)
    cpus = bind_cpus(topology, placed, wishes.cpu_bind)
    ranks = tuple(_rank(known, *parts) for parts in zip(placed, picked, cpus, strict=True))
    warnings = (
        *override.warnings,
        *remarks.all_of(topology, known.distances, ranks, wishes, known.refused),
        *remarks.by_rank((p.local_rank, c.warning) for p, c in zip(placed, cpus, strict=True) if c.warning),
    )
    return NodeBinding(ranks, _shared(known, picked, among), left_out(known, ranks, policy), warnings)


def _checked(wishes: Wishes) -> tuple[str, nicmap.NicMap]:
    """The policy, and the map with ``--nic-map`` before the MAP of ``--nic-policy``."""
    for option, number in (("--nics-per-rank", wishes.nics_per_rank), ("--rails", wishes.rails)):
        if number is not None and number < 1:
            raise UsageError(f"{option} {number}: expected 1 or more")
    if wishes.nic_policy in NIC_POLICIES:
        return wishes.nic_policy, wishes.nic_map
    inline = nicmap.parse_inline(wishes.nic_policy)
    named = {key for key, _ in wishes.nic_map}
    return "auto", (*wishes.nic_map, *((key, nics) for key, nics in inline if key not in named))


def _known(topology: Topology, wishes: Wishes) -> Known:
    found = roles(topology)
    numbers = rails.number([r.port for r in found if r.role is Role.COMPUTE], wishes.rails)
    by_ip = routed(r.port for r in found if r.role is Role.COMPUTE)
    refused = {p.id: r for p in topology.ports if (r := refusal(p, wishes, by_ip=by_ip)) is not None}
    return Known(topology, Distances(topology), found, numbers, refused)


def _demand_routes(
    known: Known, placed: tuple[Placed, ...], picked: tuple[Picked, ...], policy: str, override: Overridden
) -> None:
    for rank, choice in zip(placed, picked, strict=True):
        if choice.asked and not choice.ports:
            named = override.ports.get(rank.local_rank, override.everyone)
            raise NoRouteError(no_route(known, rank.local_rank, policy, named))


def _rank(known: Known, placed: Placed, picked: Picked, cpus: CpuBinding) -> RankBinding:
    ports = picked.ports
    level = known.distances.level(placed.device, ports[0]) if placed.device is not None and ports else None
    rail = known.rails.get(ports[0].id) if ports else None
    why = [placed.reason, *picked.reasons]
    if rail is not None:
        why.append(Reason("rail", "of_first_port", f"rail {rail}, that of {ports[0].id}"))
    why.append(cpus.reason)
    return RankBinding(
        placed.local_rank, placed.device, ports, level, rail, cpus.numa, cpus.cpus, cpus.memory, tuple(why)
    )


def _shared(known: Known, picked: tuple[Picked, ...], among: tuple[Port, ...]) -> tuple[Port, ...]:
    """One list for all ranks, in one order; empty where ranks have lists of their own, or none."""
    if not picked or not all(choice.ports for choice in picked):
        return ()
    if not any(choice.own for choice in picked):
        return tuple(p for p in among if known.usable(p))
    return picked[0].ports if len({choice.ports for choice in picked}) == 1 else ()
