"""A decision, put together: the status that goes with it, and when to look again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elaunch.kubernetes import infrastructure
from elaunch.kubernetes.actions import PODS, Action, Decision, Note, Remove
from elaunch.kubernetes.memory import Memory
from elaunch.kubernetes.observed import Observed, Pod
from elaunch.kubernetes.spec import JobSpec
from elaunch.kubernetes.status import Situation, status_of

LOOK = 15.0  # seconds between two looks at a job in which nothing happens
SOON = 1.0


def removed(pod: Pod) -> Remove:
    return Remove(PODS, pod.name, pod.uid)


def decision(
    spec: JobSpec,
    memory: Memory,
    status: Mapping[str, Any],
    seen: Observed,
    now: float,
    situation: Situation,
    actions: list[Action] | None = None,
    notes: list[Note] | None = None,
    again: float | None = None,
) -> Decision:
    told = status_of(spec, memory, status, seen, now, situation)
    reachable = bool(infrastructure.addresses(seen)) or not spec.etcd.managed  # else an event will tell of its address
    unsettled = seen.truth is None and reachable and not situation.defects and not memory.outcome
    soonest = min(again if again is not None else LOOK, SOON if unsettled else LOOK)
    return Decision(memory, told, tuple(actions or ()), tuple(notes or ()), max(0.2, soonest))
