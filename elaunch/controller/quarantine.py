"""Hosts with repeated faults are left out for a while: faults in, records for the job's state out.

A few hosts cause many of a cluster's failures, and go on doing so ("lemon nodes": Kokolis et al., Revisiting
Reliability in Large-Scale Machine Learning Research Clusters, HPCA 2025). One fault proves nothing; some within a
window do. Each further quarantine of a host lasts twice as long.

Times are wall-clock seconds of whoever leads, never of the host: a host whose clock is wrong is not at fault for it. As
leaders' clocks may differ as well, a time that lies ahead counts as now, and no quarantine lasts longer than it was
given for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from elaunch.controller.restarts import Cause
from elaunch.rendezvous.memory import Fault as Fault
from elaunch.rendezvous.memory import HostRecord as HostRecord
from elaunch.rendezvous.records import Node

N = TypeVar("N", bound=Node)

HOSTS_FAULT = frozenset({Cause.RANK_FAULT.value, Cause.NODE_FAULT.value, Cause.HANG.value})
OPERATOR = Cause.OPERATOR.value


@dataclass(frozen=True, slots=True)
class QuarantinePolicy:
    """``faults`` (0: never) within ``window`` seconds put a host away for ``duration`` seconds, at most ``longest``.

    A host that is needed to reach the least number of nodes is taken back before its time, unless ``strict``.
    """

    faults: int = 3
    window: float = 3600.0
    duration: float = 3600.0
    longest: float = 86400.0
    strict: bool = False


def with_fault(policy: QuarantinePolicy, record: HostRecord, fault: Fault) -> HostRecord:
    """``record`` with a fault of now added, in quarantine if that was one too many.

    What is no fault of a host (a code error, a preemption) changes nothing, nor does a second fault in a generation:
    a node that dies takes its ranks along.
    """
    now = fault.time
    if fault.code not in HOSTS_FAULT or any(known.generation == fault.generation for known in record.faults):
        return record
    recent = [known for known in record.faults if now - min(known.time, now) <= policy.window]
    record = replace(record, faults=(*recent, fault))
    if not policy.faults or len(record.faults) < policy.faults or record.left(now) > 0:
        return record
    length = min(policy.duration * 2**record.times, policy.longest)
    reason = f"{len(record.faults)} faults within {_spell(policy.window)}; the last: {fault.text}"
    return replace(
        record, faults=(), since=now, until=now + length, code="faults", reason=reason, times=record.times + 1
    )


def by_operator(record: HostRecord, now: float, seconds: float, reason: str) -> HostRecord:
    """``record`` put in quarantine by hand. Whoever wants the host back earlier deletes the record."""
    return replace(record, since=now, until=now + seconds, code=OPERATOR, reason=reason, times=record.times)


def left_out(record: HostRecord, now: float) -> str:
    """Why the host is left out, as one sentence; "" if it is not."""
    left = record.left(now)
    return f"host {record.host} is in quarantine for {_spell(left)} more: {record.reason}" if left > 0 else ""


def screen(
    policy: QuarantinePolicy, records: Mapping[str, HostRecord], nodes: Iterable[N], needed: int, now: float
) -> tuple[list[N], dict[str, str]]:
    """The nodes that may be used, in the order given, and for each host that is left out the sentence that says why.

    Where fewer than ``needed`` would remain, those are taken back whose time is up first: a job that gets on with a
    doubtful host is better than one that stands still. What an operator has put away stays away.
    """
    all_nodes = list(nodes)
    away = {node.node_id: records[node.host] for node in all_nodes if _away(records.get(node.host), now)}
    missing = needed - (len(all_nodes) - len(away))
    if missing > 0 and not policy.strict:
        soonest = sorted((i for i, r in away.items() if r.code != OPERATOR), key=lambda i: (away[i].left(now), i))
        if len(soonest) >= missing:
            for node_id in soonest[:missing]:
                del away[node_id]
    why = {record.host: left_out(record, now) for record in away.values()}
    return [node for node in all_nodes if node.node_id not in away], why


def _away(record: HostRecord | None, now: float) -> bool:
    return record is not None and record.left(now) > 0


def _spell(seconds: float) -> str:
    for length, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"
