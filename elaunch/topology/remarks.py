"""What an operator should know of a binding that works: sentences with figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from elaunch.topology.binding import RankBinding, Refused, Wishes
from elaunch.topology.distance import Distances, Model
from elaunch.topology.level import Level
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import listed, names, near, ordered
from elaunch.topology.role import is_fabric


def all_of(
    topology: Topology,
    distances: Distances,
    ranks: tuple[RankBinding, ...],
    wishes: Wishes,
    refused: dict[str, Refused],
) -> tuple[str, ...]:
    """The warnings about ``ranks``, in the order of weight."""
    return (
        *_bandwidth(distances, ranks, wishes.bandwidth),
        *_only_far(ranks),
        *_lost(ranks, refused),
        *_sockets(ranks),
        *_slower_than_like(distances, ranks),
        *_too_few(ranks, wishes.nics_per_rank),
        *_unknown_excludes(topology, wishes),
    )


def _bandwidth(distances: Distances, ranks: tuple[RankBinding, ...], wanted: float | None) -> list[str]:
    """Each rank's part of its nearest ports, where several ranks share one."""
    if wanted is None:
        return []
    own = {rank.local_rank: _own(distances, rank) for rank in ranks if rank.ports}
    users = Counter(p.id for ports in own.values() for p in ports)
    said: list[str] = []
    for rank in ranks:
        ports = own.get(rank.local_rank, ())
        rates = [(p.rate or 0.0) / users[p.id] for p in ports]
        if not ports or not all(p.rate for p in ports) or sum(rates) >= wanted:
            continue
        share = listed(
            f"{p.id} {p.rate:g} Gbit/s" + (f" for {users[p.id]} ranks" if users[p.id] > 1 else "") for p in ports
        )
        said.append(f"rank {rank.local_rank}: {sum(rates):g} Gbit/s of {wanted:g} wanted ({share})")
    return said


def _own(distances: Distances, rank: RankBinding) -> tuple[Port, ...]:
    """The ports of a rank that are as near as its first."""
    if rank.device is None:
        return rank.ports
    first = distances.bandwidth(rank.device, rank.ports[0])
    return tuple(
        p
        for p in rank.ports
        if distances.level(rank.device, p) is rank.level and distances.bandwidth(rank.device, p) == first
    )


def _only_far(ranks: tuple[RankBinding, ...]) -> list[str]:
    said: list[tuple[int, str]] = []
    for rank in ranks:
        if rank.level is Level.SYS:
            said.append((rank.local_rank, f"{rank.ports[0].id} is reached only over the link between NUMA nodes (SYS)"))
        elif rank.level is Level.UNKNOWN:
            said.append((rank.local_rank, f"nothing tells how far {rank.ports[0].id} is"))
    return by_rank(said)


def by_rank(said: Iterable[tuple[int, str]]) -> list[str]:
    """``ranks 0, 1: text``, once for each text."""
    who: dict[str, list[int]] = {}
    for rank, text in said:
        who.setdefault(text, []).append(rank)
    return [f"rank{'s' * (len(n) > 1)} {listed(str(r) for r in n)}: {text}" for text, n in who.items()]


def _lost(ranks: tuple[RankBinding, ...], refused: dict[str, Refused]) -> list[str]:
    """A rank that would have had another port first."""
    codes = {"displaced", *(r.code for r in refused.values())}
    return by_rank(
        (r.local_rank, why.text) for r in ranks for why in r.why if why.about == "nics" and why.code in codes
    )


def _sockets(ranks: tuple[RankBinding, ...]) -> list[str]:
    used = ordered({p.id: p for rank in ranks for p in rank.ports}.values())
    if not used or any(is_fabric(p) for p in used):
        return []
    return [f"no RDMA on this machine: ranks reach each other by sockets over {listed(p.id for p in used)}"]


def _slower_than_like(distances: Distances, ranks: tuple[RankBinding, ...]) -> list[str]:
    """A link that came up with fewer lanes or at a lower speed than others of its model."""
    used = ordered({p.id: p for rank in ranks for p in rank.ports}.values())
    most: dict[Model, float] = {}
    for port in used:
        most[distances.model(port)] = max(port.rate or 0.0, most.get(distances.model(port), 0.0))
    return [
        f"{port.id} runs at {port.rate:g} Gbit/s, its like at {most[distances.model(port)]:g}"
        for port in used
        if port.rate and port.rate < most[distances.model(port)]
    ]


def _too_few(ranks: tuple[RankBinding, ...], wanted: int | None) -> list[str]:
    few = [r for r in ranks if r.ports and wanted is not None and len(r.ports) < wanted]
    return by_rank((r.local_rank, f"{len(r.ports)} of {wanted} NICs asked for (--nics-per-rank)") for r in few)


def _unknown_excludes(topology: Topology, wishes: Wishes) -> list[str]:
    known = {name for port in topology.ports for name in names(port)}
    return [
        f"--exclude-nic {n}: this machine has none of that name; {near(n, known)}"
        for n in wishes.exclude
        if n not in known
    ]
