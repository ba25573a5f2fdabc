"""From a machine and the operator's wishes to what each rank is bound to. Values in, values out."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.errors import NoRouteError, UsageError
from elaunch.topology import nicmap, rails, remarks
from elaunch.topology.binding import NodeBinding, RankBinding, Reason, Refused, Wishes
from elaunch.topology.cpubind import CpuBinding, bind_cpus
from elaunch.topology.distance import Distances
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import listed, ordered
from elaunch.topology.override import Overridden, overridden
from elaunch.topology.placing import Placed, place
from elaunch.topology.preference import Tiers, preferences, without_device
from elaunch.topology.roles import PortRole, Role, roles
from elaunch.topology.usable import refusal

POLICIES = ("auto", "local", "all")

_NEVER = ("bond_member", "virtual_function", "vlan", "no_rdma", "wireless", "usb")
"""Codes of ports that even ``all`` leaves out: the same wire again, or no way that the others of the list share."""


@dataclass(frozen=True, slots=True)
class Picked:
    """The ports of one rank in its order, and why."""

    ports: tuple[Port, ...]
    reasons: tuple[Reason, ...]
    own: bool
    """Whether its list differs from the other ranks' by intent."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What is worked out once for all ranks."""

    topology: Topology
    distances: Distances
    roles: tuple[PortRole, ...]
    rails: dict[str, int]
    refused: dict[str, Refused]

    def usable(self, port: Port) -> bool:
        return port.id not in self.refused


def bind(topology: Topology, slots: int, wishes: Wishes) -> NodeBinding:
    """Device, ports, rail, CPUs and memory of each of ``slots`` local ranks, each choice with its reason.

    Raises NoRouteError where ranks of other nodes are to be reached and no port is left (never with
    ``wishes.network`` false, nor for ranks that have no device and asked for no port), and UsageError for a wish that
    this machine cannot be held to: an unknown name, a wrong number.
    """
    policy, nic_map = _policy(wishes)
    if wishes.nics_per_rank is not None and wishes.nics_per_rank < 1:
        raise UsageError(f"--nics-per-rank {wishes.nics_per_rank}: expected 1 or more")
    if wishes.rails is not None and wishes.rails < 1:
        raise UsageError(f"--rails {wishes.rails}: expected 1 or more")
    placed = place(topology, slots, wishes)
    machine = _machine(topology, wishes)
    override = overridden(topology, placed, nic_map, machine.roles)
    candidates = _candidates(machine, policy) if override.everyone is None else override.everyone
    picked = _picked(machine, placed, wishes, policy, candidates, override)
    _demand_route(machine, placed, wishes, override, picked)
    cpus = bind_cpus(topology, placed, wishes.cpu_bind)
    ranks = tuple(_rank(machine, p, k, c) for p, k, c in zip(placed, picked, cpus, strict=True))
    said = (
        *override.warnings,
        *remarks.all_of(topology, machine.distances, ranks, wishes, machine.refused),
        *remarks.by_rank((p.local_rank, c.warning) for p, c in zip(placed, cpus, strict=True) if c.warning),
    )
    return NodeBinding(ranks, _shared(picked, candidates, machine), _left_out(machine, ranks, policy), said)


def _policy(wishes: Wishes) -> tuple[str, nicmap.NicMap]:
    """The policy, and the map with ``--nic-map`` before the MAP of ``--nic-policy``."""
    if wishes.nic_policy in POLICIES:
        return wishes.nic_policy, wishes.nic_map
    inline = nicmap.parse_inline(wishes.nic_policy)
    named = {key for key, _ in wishes.nic_map}
    return "auto", (*wishes.nic_map, *((k, n) for k, n in inline if k not in named))


def _machine(topology: Topology, wishes: Wishes) -> _Machine:
    found = roles(topology)
    numbers = rails.number([r.port for r in found if r.role is Role.COMPUTE], wishes.rails)
    refused = {p.id: r for p in topology.ports if (r := refusal(p, wishes)) is not None}
    return _Machine(topology, Distances(topology), found, numbers, refused)


def _candidates(machine: _Machine, policy: str) -> tuple[Port, ...]:
    """The ports that a policy chooses among, whatever their state."""
    if policy == "all":
        return ordered(r.port for r in machine.roles if r.role is not Role.SOFTWARE and r.code not in _NEVER)
    return ordered(r.port for r in machine.roles if r.role is Role.COMPUTE)


def _picked(
    machine: _Machine,
    placed: tuple[Placed, ...],
    wishes: Wishes,
    policy: str,
    candidates: tuple[Port, ...],
    override: Overridden,
) -> tuple[Picked, ...]:
    preferred = preferences(machine.topology, machine.distances, candidates)
    picked: list[Picked] = []
    for rank in placed:
        named = override.ports.get(rank.local_rank)
        if named is not None:
            picked.append(_by_map(machine, named))
        elif not _asked(rank, wishes, override):
            text = "no other node" if not wishes.network else "no accelerator: the library finds its interface itself"
            picked.append(Picked((), (Reason("nics", "not_asked", text),), False))
        else:
            device = rank.device
            tiers = preferred.get(device.id, ()) if device else without_device(candidates, rank.local_rank)
            picked.append(_by_policy(machine, tiers, policy, wishes.nics_per_rank, rank))
    return tuple(picked)


def _asked(rank: Placed, wishes: Wishes, override: Overridden) -> bool:
    """Under ``auto``, ports are bound where there is something for the accelerators to reach."""
    if wishes.nic_policy in ("local", "all") or override.everyone is not None:
        return True
    return wishes.network and (rank.device is not None or rank.reason.code == "more_ranks_than_devices")


def _by_map(machine: _Machine, named: tuple[Port, ...]) -> Picked:
    ports = tuple(p for p in named if machine.usable(p))
    reasons = [Reason("nics", "mapped", f"{listed(p.id for p in ports)} by the operator's map")] if ports else []
    lost = [machine.refused[p.id] for p in named if not machine.usable(p)]
    return Picked(ports, (*reasons, *(Reason("nics", r.code, r.text) for r in lost)), True)


def _by_policy(machine: _Machine, tiers: Tiers, policy: str, most: int | None, rank: Placed) -> Picked:
    alive = [tuple(p for p in tier if machine.usable(p)) for tier in tiers]
    alive = [tier for tier in alive if tier]
    if policy == "local":
        alive = alive[:1]
    ports = tuple(p for tier in alive for p in tier)
    shown = ports if most is None else ports[:most]
    if not shown:
        return Picked((), (), False)
    reasons = [_first_reason(machine, shown[0], rank)]
    reasons += [
        Reason("nics", "displaced", f"{machine.refused[p.id].text}, and {shown[0].id} is the next best")
        for p in (tiers[0][:1] if tiers else ())
        if not machine.usable(p)
    ]
    return Picked(shown, tuple(reasons), policy == "local" or most is not None)


def _first_reason(machine: _Machine, port: Port, rank: Placed) -> Reason:
    if rank.device is None:
        return Reason("nics", "no_device", f"{port.id} first: there is no device that it could be near to")
    way = machine.distances.level(rank.device, port)
    carried = machine.distances.bandwidth(rank.device, port)
    speed = f", {carried:g} GB/s" if carried else ""
    return Reason("nics", "nearest", f"{port.id} is nearest to {rank.device.id} ({way.name}{speed})")


def _demand_route(
    machine: _Machine, placed: tuple[Placed, ...], wishes: Wishes, override: Overridden, picked: tuple[Picked, ...]
) -> None:
    for rank, choice in zip(placed, picked, strict=True):
        if wishes.network and not choice.ports and not any(r.code == "not_asked" for r in choice.reasons):
            named = override.ports.get(rank.local_rank, override.everyone)
            raise NoRouteError(_no_route(machine, rank, wishes.nic_policy, named))


def _no_route(machine: _Machine, rank: Placed, policy: str, named: tuple[Port, ...] | None) -> str:
    if not machine.topology.ports:
        return "no port to reach other nodes over: this machine shows none at all"
    if named is not None:
        why = "; ".join(machine.refused[p.id].text for p in named)
        return f"no port for local rank {rank.local_rank} to reach other nodes over: of those in the map, {why}"
    whys = [_why_not(machine, r, policy) for r in machine.roles]
    usable = [r.port.nic for r in machine.roles if r.role in (Role.STORAGE, Role.MANAGEMENT) and machine.usable(r.port)]
    hint = f"; --nic-map can name {listed(usable, 4)} all the same" if usable else ""
    found = f"{len(whys)} port{'s' if len(whys) > 1 else ''} found"
    return f"no port to reach other nodes over: {found}, none usable: {'; '.join(whys)}{hint}"


def _why_not(machine: _Machine, role: PortRole, policy: str) -> str:
    refused = machine.refused.get(role.port.id)
    if refused is not None and (role.role is Role.COMPUTE or policy == "all"):
        return refused.text
    return role.text


def _rank(machine: _Machine, placed: Placed, picked: Picked, cpus: CpuBinding) -> RankBinding:
    ports = picked.ports
    level = machine.distances.level(placed.device, ports[0]) if placed.device is not None and ports else None
    rail = machine.rails.get(ports[0].id) if ports else None
    why = [placed.reason, *picked.reasons]
    if rail is not None:
        why.append(Reason("rail", "of_first_port", f"rail {rail}, that of {ports[0].id}"))
    why.append(cpus.reason)
    return RankBinding(
        placed.local_rank, placed.device, ports, level, rail, cpus.numa, cpus.cpus, cpus.memory, tuple(why)
    )


def _shared(picked: tuple[Picked, ...], candidates: tuple[Port, ...], machine: _Machine) -> tuple[Port, ...]:
    """One list for all ranks, in one order; empty where ranks have lists of their own, or none."""
    lists = {k.ports for k in picked}
    if len(lists) == 1 and any(k.own for k in picked):
        return picked[0].ports
    if any(k.own or not k.ports for k in picked):
        return ()
    return tuple(p for p in candidates if machine.usable(p)) if picked else ()


def _left_out(machine: _Machine, ranks: tuple[RankBinding, ...], policy: str) -> tuple[Refused, ...]:
    used = {p.id for rank in ranks for p in rank.ports}
    found: list[Refused] = []
    for role in machine.roles:
        port, refused = role.port, machine.refused.get(role.port.id)
        if port.id in used:
            continue
        if role.role is not Role.COMPUTE and (policy != "all" or role.code in _NEVER or role.role is Role.SOFTWARE):
            found.append(Refused(port, role.code if role.code == "software" else role.role.value, role.text))
        elif refused is not None:
            found.append(refused)
        else:
            found.append(Refused(port, "not_chosen", f"{port.id} is on the list of no rank"))
    return tuple(found)
