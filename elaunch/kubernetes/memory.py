"""What the operator must not forget: it stands in the resource's status, and nowhere else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elaunch.kubernetes.observed import seconds, stamp


@dataclass(frozen=True, slots=True)
class Run:
    """One life of the job's pods, from the first to the last: all are started with the same values.

    ``low`` and ``high`` are its ``--nnodes``; 0 while it has no pod. A final state of ``horizon`` or before was of an
    earlier run. ``failures`` counts the runs before it that ended in a row and had to be started again, ``failed`` is
    when the last of them did.
    """

    number: int = 1
    low: int = 0
    high: int = 0
    digest: str = ""
    horizon: int = -1
    failures: int = 0
    failed: float = 0.0

    @property
    def begun(self) -> bool:
        return self.high > 0


@dataclass(frozen=True, slots=True)
class Slot:
    """``incarnation`` is the last one that was created, ``judged`` the last whose end was looked at.

    ``failures`` counts those that failed in a row, ``failed`` is when the last one did.
    """

    number: int
    incarnation: int = 0
    judged: int = 0
    failures: int = 0
    failed: float = 0.0


@dataclass(frozen=True, slots=True)
class Avoided:
    """A node that new pods keep away from, until then."""

    node: str
    until: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """``line`` is the last line of the history that became an Event, in the etcd whose id is ``cluster``.

    Generations are numbered above ``floor``, ``replacements`` counts pods that were replaced for a fault.
    ``outcome`` is ``Succeeded`` or ``Failed`` once the job is over, at ``over``.
    """

    run: Run = Run()
    slots: tuple[Slot, ...] = ()
    avoided: tuple[Avoided, ...] = ()
    replacements: int = 0
    floor: int = 0
    cluster: str = ""
    line: int = -1
    generation: int = 0
    restarts: int = 0
    step: int = -1
    outcome: str = ""
    reason: str = ""
    message: str = ""
    begun: float = 0.0
    over: float = 0.0

    def slot(self, number: int) -> Slot:
        at = self._place(number)
        there = at < len(self.slots) and self.slots[at].number == number
        return self.slots[at] if there else Slot(number)

    def with_slot(self, slot: Slot) -> Memory:
        at = self._place(slot.number)
        after = at + (at < len(self.slots) and self.slots[at].number == slot.number)
        return replace(self, slots=(*self.slots[:at], slot, *self.slots[after:]))

    def _place(self, number: int) -> int:
        """Where the slot of this number is, or would be: there are thousands, in the order of their numbers."""
        return bisect_left(self.slots, number, key=lambda slot: slot.number)

    def with_avoided(self, node: str, until: float, why: str) -> Memory:
        others = tuple(a for a in self.avoided if a.node != node)
        return replace(self, avoided=(*others, Avoided(node, until, why))) if node else self


def recall(status: Mapping[str, Any]) -> Memory:
    """The memory in a resource's status."""
    run, events = status.get("run") or {}, status.get("events") or {}
    return Memory(
        run=Run(
            number=int(run.get("number", 1)),
            low=int(run.get("minNodes", 0)),
            high=int(run.get("maxNodes", 0)),
            digest=str(run.get("templateHash", "")),
            horizon=int(run.get("after", -1)),
            failures=int(run.get("failures", 0)),
            failed=seconds(run.get("lastFailure")),
        ),
        slots=_in_order(
            Slot(
                number=int(slot["slot"]),
                incarnation=int(slot.get("incarnation", 0)),
                judged=int(slot.get("judged", 0)),
                failures=int(slot.get("failures", 0)),
                failed=seconds(slot.get("lastFailure")),
            )
            for slot in status.get("slots") or ()
        ),
        avoided=tuple(
            Avoided(str(a["node"]), seconds(a.get("until")), str(a.get("reason", "")))
            for a in status.get("avoidedNodes") or ()
        ),
        replacements=int(status.get("replacements", 0)),
        floor=int(status.get("generationFloor", 0)),
        cluster=str(events.get("etcd", "")),
        line=int(events.get("last", -1)),
        generation=int(status.get("generation", 0)),
        restarts=int(status.get("restarts", 0)),
        step=int(status.get("lastStep", -1)),
        outcome=str(status.get("outcome", "")),
        reason=str(status.get("outcomeReason", "")),
        message=str(status.get("outcomeMessage", "")),
        begun=seconds(status.get("startTime")),
        over=seconds(status.get("completionTime")),
    )


def _in_order(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    return tuple(sorted(slots, key=lambda slot: slot.number))


def inscribe(memory: Memory) -> dict[str, Any]:
    """``memory`` as part of a status."""
    run = memory.run
    status: dict[str, Any] = {
        "run": {
            "number": run.number,
            "minNodes": run.low,
            "maxNodes": run.high,
            "templateHash": run.digest,
            "after": run.horizon,
        },
        "slots": [_slot(slot) for slot in memory.slots],
        "replacements": memory.replacements,
        "generationFloor": memory.floor,
        "events": {"last": memory.line, "etcd": memory.cluster},
        "generation": memory.generation,
        "restarts": memory.restarts,
    }
    if run.failures:
        status["run"] |= {"failures": run.failures, "lastFailure": stamp(run.failed)}
    if memory.avoided:
        status["avoidedNodes"] = [{"node": a.node, "until": stamp(a.until), "reason": a.why} for a in memory.avoided]
    if memory.step >= 0:
        status["lastStep"] = memory.step
    if memory.begun:
        status["startTime"] = stamp(memory.begun)
    if memory.outcome:
        told = {"outcome": memory.outcome, "outcomeReason": memory.reason, "outcomeMessage": memory.message}
        status |= told | {"completionTime": stamp(memory.over)}
    return status


def _slot(slot: Slot) -> dict[str, Any]:
    told: dict[str, Any] = {"slot": slot.number, "incarnation": slot.incarnation, "judged": slot.judged}
    if slot.failures:
        told |= {"failures": slot.failures, "lastFailure": stamp(slot.failed)}
    return told
