"""What an ElasticJob's status says: phase, numbers and conditions, from what is remembered and what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elaunch.kubernetes.crew import unended
from elaunch.kubernetes.judging import FAILED, SUCCEEDED
from elaunch.kubernetes.memory import Memory, inscribe
from elaunch.kubernetes.names import WORKER, selector_text
from elaunch.kubernetes.observed import Observed, stamp
from elaunch.kubernetes.spec import JobSpec

ORDER = ("Ready", "Progressing", "Suspended", "Succeeded", "Failed", "Degraded", "EtcdReady", "InvalidSpec")
_PHASES = {"waiting": "Waiting", "starting": "Starting", "running": "Running", "aborting": "Restarting"}


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision found that is not in the numbers: what it waits for, how many pods it is creating now."""

    defects: tuple[str, ...] = ()
    waits: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class _Said:
    holds: bool
    reason: str
    text: str = ""


def status_of(
    spec: JobSpec, memory: Memory, before: Mapping[str, Any], seen: Observed, now: float, situation: Situation
) -> Any:
    """The whole status; of a spec that is refused the last numbers stay."""
    alive = [pod for pod in seen.pods if pod.alive]
    phase = _phase(spec, memory, seen, now, situation)
    said = _conditions(spec, memory, seen, now, phase, situation)
    headline = _headline(memory, seen, situation, phase)
    told = {
        **inscribe(memory),
        "observedGeneration": spec.asked,
        "phase": phase,
        "reason": headline.reason,
        "message": headline.text[:1000],
        "replicas": len(alive),
        "ready": sum(pod.ready for pod in alive),
        "readyReplicas": f"{sum(pod.ready for pod in alive)}/{spec.wanted}",
        "selector": selector_text(spec.name, WORKER),
        "jobId": spec.job,
        "conditions": [_condition(kind, said[kind], before, spec, now) for kind in ORDER],
    }
    return _without_blanks(told)


def _without_blanks(told: Any) -> Any:
    """Without empty texts, which some servers take for null, and refuse."""
    if isinstance(told, dict):
        return {name: _without_blanks(value) for name, value in told.items() if value != ""}
    return [_without_blanks(value) for value in told] if isinstance(told, list) else told


def _phase(spec: JobSpec, memory: Memory, seen: Observed, now: float, situation: Situation) -> str:
    if memory.outcome:
        return memory.outcome
    if situation.defects:
        return "Invalid"
    left = unended(seen.pods, now)
    if spec.suspend:
        return "Suspending" if left else "Suspended"
    truth = seen.truth
    if not memory.run.begun or not left:
        return "Pending"
    if truth is None or not truth.seats or truth.phase not in _PHASES:
        return "Unknown" if truth is None else "Pending"
    return "Starting" if _outdated(memory, seen) else _PHASES[truth.phase]


def _outdated(memory: Memory, seen: Observed) -> bool:
    """Whether what runs is none of the generations that may: pods of before the etcd was lost have made it."""
    truth = seen.truth
    return truth is not None and truth.phase == "running" and 0 < memory.floor >= truth.generation


def _headline(memory: Memory, seen: Observed, situation: Situation, phase: str) -> _Said:
    """Why the phase is what it is."""
    if situation.defects:
        return _Said(True, "InvalidSpec", "; ".join(situation.defects))
    if memory.outcome:
        return _Said(True, memory.reason, memory.message)
    if phase == "Suspended":
        step = f", to go on from step {memory.step}" if memory.step >= 0 else ""
        return _Said(True, phase, f"suspended after generation {memory.generation}{step}")
    if seen.foreign:
        return _Said(True, "NameTaken", f"{', '.join(seen.foreign)} belongs to another owner; it is waited for")
    if seen.trouble:
        return _Said(True, "Refused", seen.trouble)
    if situation.waits:
        return _Said(True, phase, situation.waits)
    pending = next((p for p in seen.pods if p.alive and p.phase == "Pending" and p.message), None)
    if pending is not None:
        return _Said(True, phase, f"{pending.name}: {pending.message}")
    truth = seen.truth
    if truth is None:
        return _Said(True, phase, seen.silence)
    if phase == "Starting" and _outdated(memory, seen):
        text = f"generation {truth.generation} is one of before etcd was lost: one above {memory.floor} is waited for"
        return _Said(True, "OutdatedGeneration", text)
    return _Said(True, _camel(truth.code) or phase, truth.text)


def _conditions(
    spec: JobSpec, memory: Memory, seen: Observed, now: float, phase: str, situation: Situation
) -> dict[str, _Said]:
    truth, alive = seen.truth, [pod for pod in seen.pods if pod.alive]
    members = len(truth.seated) if truth is not None else 0
    runs = phase == "Running"
    settled = runs and len(alive) == spec.wanted and members == spec.replicas and not situation.missing
    moving = not memory.outcome and not situation.defects and not settled and phase != "Suspended"
    nodes = f"{members} of {spec.replicas} nodes, {truth.ranks if truth else 0} ranks"
    return {
        "Ready": _Said(runs, phase, f"generation {memory.generation} runs on {nodes}" if runs else ""),
        "Progressing": _Said(moving, phase if moving else "Settled", situation.waits),
        "Suspended": _Said(
            phase == "Suspended", phase if spec.suspend else "NotSuspended", "spec.suspend" if spec.suspend else ""
        ),
        "Succeeded": _outcome(memory, SUCCEEDED),
        "Failed": _outcome(memory, FAILED),
        "Degraded": _degraded(spec, memory, seen, runs and members < spec.replicas, nodes),
        "EtcdReady": _etcd(spec, memory, seen),
        "InvalidSpec": _Said(
            bool(situation.defects), "Invalid" if situation.defects else "Valid", "; ".join(situation.defects)
        ),
    }


def _outcome(memory: Memory, outcome: str) -> _Said:
    holds = memory.outcome == outcome
    return _Said(holds, (memory.reason or outcome) if holds else f"Not{outcome}", memory.message if holds else "")


def _degraded(spec: JobSpec, memory: Memory, seen: Observed, short: bool, nodes: str) -> _Said:
    if memory.outcome:
        return _Said(False, "Over")
    if seen.trouble:
        return _Said(True, "Refused", seen.trouble)
    if seen.truth is not None and seen.truth.denied:
        return _Said(True, "ScaleRefused", seen.truth.denied)
    if short:
        return _Said(True, "FewerNodes", nodes)
    avoided = [a.node for a in memory.avoided]
    return _Said(bool(avoided), "NodesAvoided" if avoided else "AsWanted", ", ".join(avoided))


def _etcd(spec: JobSpec, memory: Memory, seen: Observed) -> _Said:
    if memory.outcome and seen.truth is None:
        return _Said(False, "Over", "the job has ended")
    if seen.truth is None:
        return _Said(False, "NoAnswer", seen.silence)
    return _Said(True, "Answers", f"cluster {seen.truth.cluster}")


def _condition(kind: str, said: _Said, before: Mapping[str, Any], spec: JobSpec, now: float) -> dict[str, Any]:
    """A condition; it changed when its status did."""
    status = "True" if said.holds else "False"
    old: Mapping[str, Any] = next((c for c in before.get("conditions") or () if c.get("type") == kind), {})
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": said.reason,
        "message": said.text[:1000],
        "lastTransitionTime": since or stamp(now),
        "observedGeneration": spec.asked,
    }


def _camel(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("_"))
