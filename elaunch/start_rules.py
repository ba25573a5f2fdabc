"""What must hold between the ranks of a start, as rules: claims in, one sentence out. Without torch.

Rank 0 applies them to what all ranks leave at the store, the leader to what agents tell: the same words either way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elaunch.start_record import StartRecord

NAMED = 8  # ranks that a sentence names at most
_EXCLUSIVE = ("nccl", "xccl", "undefined")


@dataclass(frozen=True, slots=True)
class Claim:
    """What of a rank's record must fit to those of the others.

    ``device`` is one that no other rank may hold, "" where the rank has none, or shares it. ``before`` is how many
    process groups it has made at the generation's store.
    """

    rank: int
    host: str
    asked_rank: int
    asked_world_size: int
    generation: int
    job: str
    device: str = ""
    digest: str = ""
    asymmetry: bool = False
    before: int = 0


def claim_of(record: StartRecord, before: int = 0) -> Claim:
    """A backend of GPUs wants a device for each rank; where ranks meet over others, they may share one."""
    exclusive = any(name in record.backend for name in _EXCLUSIVE)
    return Claim(
        record.rank,
        record.host,
        record.asked_rank,
        record.asked_world_size,
        record.generation,
        record.job,
        record.device_id if exclusive else "",
        record.topology_digest if record.device_id else "",
        record.asymmetry,
        before,
    )


def packed_claim(claim: Claim) -> str:
    return json.dumps([getattr(claim, name) for name in Claim.__slots__])


def unpacked_claim(text: str) -> Claim:
    """Raises ValueError for what ``packed_claim`` has not made."""
    values = json.loads(text)
    if not isinstance(values, list) or len(values) != len(Claim.__slots__):
        raise ValueError("no claim of a rank")
    return Claim(*values)


def disagreement(claims: Sequence[Claim]) -> str:
    """What keeps these ranks, all that there are, from being one job; "" where nothing does."""
    for rule in (_jobs, _worlds, _ranks, _devices, _digests):
        if text := rule(claims):
            return text
    return ""


def _jobs(claims: Sequence[Claim]) -> str:
    if text := differing(claims, lambda claim: claim.job, "is of job {!r}", "are of job {!r}"):
        return text
    return differing(claims, lambda claim: claim.generation, "is of generation {}", "are of generation {}")


def _worlds(claims: Sequence[Claim]) -> str:
    text = differing(
        claims, lambda claim: claim.asked_world_size, "asked for a world of {} ranks", "asked for a world of {} ranks"
    )
    return f"{text}; elaunch started {len(claims)}" if text else ""


def _ranks(claims: Sequence[Claim]) -> str:
    held: dict[int, list[Claim]] = {}
    for claim in claims:
        held.setdefault(claim.asked_rank, []).append(claim)
    size = len(claims)
    for asked, holders in sorted(held.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(holders) > 1:
            missing = ranks(rank for rank in range(size) if rank not in held)
            both = "both" if len(holders) == 2 else "all"
            return f"{_who(holders)} {both} ask to be rank {asked} of {size}, and nobody is {missing}"
        if not 0 <= asked < size:
            return f"{_who(holders)} asks to be rank {asked} of {size}"
    return ""


def _devices(claims: Sequence[Claim]) -> str:
    held: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        if claim.device:
            held.setdefault((claim.host, claim.device), []).append(claim)
    for (_, device), holders in held.items():
        if len(holders) > 1:
            both = "both" if len(holders) == 2 else "all"
            return f"{_who(holders)} {both} hold device {device}: each rank needs one of its own (LOCAL_RANK)"
    return ""


def _digests(claims: Sequence[Claim]) -> str:
    known = [claim for claim in claims if claim.digest]
    if any(claim.asymmetry for claim in claims):
        return ""
    has = "has the topology {:.12}", "have the topology {:.12}"  # as many digits as elaunch topo shows
    text = differing(known, lambda claim: claim.digest, *has)
    return f"{text}: the machines differ (elaunch topo shows each; --allow-asymmetry lets them)" if text else ""


def differing(claims: Sequence[Claim], value: Callable[[Claim], Hashable], one: str, several: str) -> str:
    """``rank 1 (b) asked for 3, ranks 0, 2 (a) for 2``: the fewer ranks hold a value, the likelier it is wrong."""
    held: dict[Any, list[Claim]] = {}
    for claim in claims:
        held.setdefault(value(claim), []).append(claim)
    if len(held) < 2:
        return ""
    groups = sorted(held.items(), key=lambda item: (len(item[1]), item[1][0].rank))
    (odd, few), (usual, many) = groups[0], groups[-1]
    parts = [
        f"{_who(group)} {(one if len(group) == 1 else several).format(v)}" for v, group in ((odd, few), (usual, many))
    ]
    return ", ".join(parts)


def _who(claims: Iterable[Claim]) -> str:
    """``rank 1 (gpu-07)``, ``ranks 0, 2 (gpu-01, gpu-02)``."""
    found = sorted(claims, key=lambda claim: claim.rank)
    hosts = list(dict.fromkeys(claim.host for claim in found))
    where = f" ({', '.join(hosts[:2])}{', ...' if len(hosts) > 2 else ''})" if hosts != [""] else ""
    return f"{ranks(claim.rank for claim in found)}{where}"


def ranks(numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 2``, ``ranks 0, 1, 2, 3, 4, 5, 6, 7 and 20 more``."""
    found = sorted(numbers)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"rank{'s' if len(found) > 1 else ''} {', '.join(map(str, found[:NAMED]))}{more}"
