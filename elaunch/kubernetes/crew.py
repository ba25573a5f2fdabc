"""Which pods there should be: what to create, what to remove, and what to leave alone. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.kubernetes.judging import delay, undecided
from elaunch.kubernetes.memory import Memory
from elaunch.kubernetes.observed import OVERDUE, Observed, Pod, Seating, Truth
from elaunch.kubernetes.spec import JobSpec

JOINING = 60.0  # seconds in which a new pod's agent should have joined
_AT_ONCE = 500  # pods of one round, so that other jobs and the operator's Lease have their turn


@dataclass(frozen=True, slots=True)
class Crew:
    """``create`` are pairs of slot and incarnation; ``waits`` is why something is put off, ``again`` until when."""

    create: tuple[tuple[int, int], ...] = ()
    remove: tuple[Pod, ...] = ()
    waits: str = ""
    again: float | None = None


def unended(pods: Sequence[Pod], now: float) -> list[Pod]:
    """Those that may still run. One that should long be gone is on a lost node, and has ended its ranks itself."""
    return [pod for pod in pods if not pod.ended and not (pod.leaving and now > pod.leaving + OVERDUE)]


def lapse(pods: Sequence[Pod], now: float) -> float | None:
    """Seconds until none of those that are being deleted is waited for any more; None where none is."""
    return max((pod.leaving + OVERDUE - now + 0.2 for pod in pods if pod.leaving), default=None)


def muster(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> Crew:
    """The pods of a job that is to run; its run has begun."""
    mine = [pod for pod in seen.pods if pod.run == memory.run.number]
    working = Seating(seen.truth.seated if seen.truth is not None else ())
    alive, doubles = _one_for_each_slot(mine, working)
    held = {p.slot for p in mine if p.ended and not p.leaving and undecided(p, seen, now)}
    taken = set(alive) | held
    stale = [pod for pod in seen.pods if pod.alive and pod.run != memory.run.number]
    create, waits, again = _missing(spec, memory, seen.pods, taken, now)
    surplus, put_off = _surplus(spec, list(alive.values()), len(taken) - spec.wanted, seen.truth, working)
    going = {pod.uid for pod in surplus}
    idle = [pod for pod in alive.values() if pod.uid not in going and _put_aside(pod, seen.truth, working)]
    failed = [pod for pod in hangers_on(mine) if pod.code and not undecided(pod, seen, now)]
    return Crew(tuple(create), (*stale, *doubles, *surplus, *idle, *failed), waits or put_off, again)


def _one_for_each_slot(pods: Sequence[Pod], working: Seating) -> tuple[dict[int, Pod], list[Pod]]:
    """Who holds each slot, and who is one too many there: a pod that works stays, else the older one."""
    holders: dict[int, Pod] = {}
    doubles = []
    for pod in sorted((p for p in pods if p.alive), key=lambda p: (not working.has(p), p.incarnation)):
        if pod.slot in holders:
            doubles.append(pod)
        else:
            holders[pod.slot] = pod
    return holders, doubles


def _missing(
    spec: JobSpec, memory: Memory, pods: Sequence[Pod], taken: set[int], now: float
) -> tuple[list[tuple[int, int]], str, float | None]:
    """The lowest free slots; one that fails again and again waits longer each time."""
    free = [number for number in range(spec.wanted + len(taken)) if number not in taken]
    create, waits, again = [], "", None
    newest: dict[int, int] = {}
    for pod in pods:
        newest[pod.slot] = max(newest.get(pod.slot, 0), pod.incarnation)
    missing = free[: max(0, spec.wanted - len(taken))]
    if len(missing) > _AT_ONCE:
        again = 0.2
    for number in missing[:_AT_ONCE]:
        slot = memory.slot(number)
        left = slot.failed + delay(slot.failures) - now
        if left > 0:
            waits = f"slot {number} failed {slot.failures} times in a row: the next pod in {left:.0f} s"
            again = min(left, again or left)
            continue
        create.append((number, max(slot.incarnation, newest.get(number, 0)) + 1))
    return create, waits, again


def _surplus(
    spec: JobSpec, alive: Sequence[Pod], many: int, truth: Truth | None, working: Seating
) -> tuple[list[Pod], str]:
    """Who goes when there are too many: never one that has ranks. The job is scaled down first, then they have none."""
    if many <= 0:
        return [], ""
    if truth is None:
        return [], f"{many} pods too many; etcd must say first which of them have no ranks"
    idle = [pod for pod in alive if not working.has(pod)]
    settled = not truth.seats or (truth.high <= spec.replicas and truth.phase in ("waiting", "starting", "running"))
    if not settled or len(alive) - len(idle) > spec.replicas:
        return [], f"{many} pods too many; they go once the job runs on {spec.replicas} nodes"
    return sorted(idle, key=lambda pod: -pod.slot)[:many], ""


def _put_aside(pod: Pod, truth: Truth | None, working: Seating) -> bool:
    """Whether the pod was put into quarantine and has no ranks: one on another node takes its place."""
    if truth is None or working.has(pod):
        return False
    return any(aside.host in (pod.name, pod.node) and aside.since > pod.since for aside in truth.quarantined)


def hangers_on(pods: Sequence[Pod]) -> list[Pod]:
    """Whose elaunch has ended while another container of the pod runs on."""
    return [p for p in pods if p.ended and p.phase not in ("Succeeded", "Failed") and not p.leaving]


def forgettable(spec: JobSpec, memory: Memory, pods: Sequence[Pod]) -> list[Pod]:
    """Failed pods beyond those that are kept for their logs, the oldest first."""
    failed = [p for p in pods if p.ended and not p.leaving and p.incarnation <= memory.slot(p.slot).judged]
    failed.sort(key=lambda pod: (pod.until or pod.since, pod.name))
    return failed[: max(0, len(failed) - spec.policy.history)]


def growth_is_due(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> tuple[bool, float]:
    """Whether the job should now be told of more nodes: when they have joined, so that it stops once for all of them.

    Else the seconds after which it is told though some have not.
    """
    truth = seen.truth
    alive = [pod for pod in seen.pods if pod.alive and pod.run == memory.run.number]
    joined = Seating(truth.seats if truth is not None else ())
    late = [pod for pod in alive if not joined.has(pod)]
    if len(alive) >= spec.replicas and not late:
        return True, 0.0
    left = max((pod.since for pod in late), default=now) + JOINING - now
    return left <= 0 and len(alive) >= spec.replicas, max(1.0, left)
