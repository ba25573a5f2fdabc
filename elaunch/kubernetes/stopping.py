"""What to do with a job that is over, and with one that is suspended. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elaunch.kubernetes import crew, infrastructure
from elaunch.kubernetes.actions import Action, Decision, Expire, Note
from elaunch.kubernetes.deciding import decision, removed
from elaunch.kubernetes.judging import next_run
from elaunch.kubernetes.memory import Memory
from elaunch.kubernetes.observed import Observed
from elaunch.kubernetes.spec import JobSpec
from elaunch.kubernetes.status import Situation

FAREWELL = 60.0  # seconds after a job's end in which its pods end by themselves


def finished(
    spec: JobSpec, memory: Memory, status: Mapping[str, Any], seen: Observed, now: float, notes: list[Note]
) -> Decision:
    """The pods that have ended stay, for their logs; what costs something goes."""
    own_end = seen.truth is not None and bool(seen.truth.final)
    left = memory.over + FAREWELL - now
    alive, beside = [pod for pod in seen.pods if pod.alive], crew.hangers_on(seen.pods)
    spared = ([*alive, *beside] if own_end else beside) if left > 0 else []
    actions: list[Action] = [removed(pod) for pod in (*alive, *beside) if pod not in spared]
    again = left if spared else None
    going = crew.unended(seen.pods, now)
    if not going:
        actions += infrastructure.dismantle(seen)
    rests = not (going or spared or actions)
    if spec.ttl is not None:
        rest = memory.over + spec.ttl - now
        actions += [Expire()] if rest <= 0 else []
        again = min(rest, again or rest) if rest > 0 else again
    decided = decision(spec, memory, status, seen, now, Situation(), actions, notes, again)
    return replace(decided, again=again) if rests and not actions else decided


def suspended(
    spec: JobSpec,
    memory: Memory,
    status: Mapping[str, Any],
    seen: Observed,
    now: float,
    actions: list[Action],
    notes: list[Note],
) -> Decision:
    """All pods get their notice; etcd stays, and with it what the job has reached."""
    leaving = [pod for pod in seen.pods if pod.alive]
    actions += [removed(pod) for pod in leaving]
    if leaving:
        notes.append(Note("Suspending", f"{len(leaving)} pods get notice, and stop", f"suspend-{spec.asked}"))
    if not crew.unended(seen.pods, now) and memory.run.begun and seen.truth is not None:
        memory = replace(memory, run=next_run(memory.run, horizon(memory, seen)))
    situation = Situation(waits="" if not crew.unended(seen.pods, now) else "the pods are stopping")
    return decision(spec, memory, status, seen, now, situation, actions, notes)


def horizon(memory: Memory, seen: Observed) -> int:
    """A final state that etcd has by now is none of the run to come."""
    truth = seen.truth
    return max(memory.run.horizon, truth.horizon) if truth is not None and truth.final else memory.run.horizon
