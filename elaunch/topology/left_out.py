"""The ports that no rank gets, why each is left out, and what is said when none is left."""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.topology.binding import RankBinding, Refused
from elaunch.topology.machine import Port
from elaunch.topology.naming import listed
from elaunch.topology.picking import NEVER, Known
from elaunch.topology.role import PortRole, Role

_MOST = 16  # names in one sentence


def left_out(known: Known, ranks: tuple[RankBinding, ...], policy: str) -> tuple[Refused, ...]:
    """Every port that is on no rank's list: for its role, for its state, or because others were chosen."""
    used = {p.id for rank in ranks for p in rank.ports}
    found: list[Refused] = []
    for role in known.roles:
        port = role.port
        if port.id in used:
            continue
        if _for_its_role(role, policy):
            found.append(Refused(port, role.code, role.text))
        else:
            chosen = Refused(port, "not_chosen", f"{port.id} is on the list of no rank")
            found.append(known.refused.get(port.id, chosen))
    return tuple(found)


def no_route(known: Known, rank: int, policy: str, named: tuple[Port, ...] | None) -> str:
    """One line for a local rank that is left without a port: what was found, and why each was refused.

    ``named`` are the ports of its map, None: there is none for it.
    """
    if not known.topology.ports:
        return "no port to reach other nodes over: this machine shows none at all"
    if named is not None:
        why = "; ".join(alike(known.refused[p.id] for p in named))
        return f"no port for local rank {rank} to reach other nodes over: of those in the map, {why}"
    whys = [
        Refused(r.port, r.code, r.text) if _for_its_role(r, policy) else known.refused[r.port.id] for r in known.roles
    ]
    others = [r.port.nic for r in known.roles if r.role in (Role.STORAGE, Role.MANAGEMENT) and known.usable(r.port)]
    hint = f"; --nic-map can name {listed(others, 4)} all the same" if others else ""
    found = f"{len(whys)} port{'s' * (len(whys) > 1)} found"
    return f"no port to reach other nodes over: {found}, none usable: {'; '.join(alike(whys))}{hint}"


def alike(refused: Iterable[Refused]) -> list[str]:
    """A sentence for each reason; the ports that it holds of besides the first stand behind it."""
    found: dict[str, list[Refused]] = {}
    for one in refused:
        found.setdefault(predicate(one), []).append(one)
    return [
        first.text + (f" (likewise {listed((r.port.id for r in rest), _MOST)})" if rest else "")
        for first, *rest in found.values()
    ]


def predicate(refused: Refused) -> str:
    """What is said of the port, without its name."""
    return refused.text.removeprefix(refused.port.id).lstrip()


def _for_its_role(role: PortRole, policy: str) -> bool:
    if policy == "all":
        return role.role is Role.SOFTWARE or role.code in NEVER
    return role.role is not Role.COMPUTE
