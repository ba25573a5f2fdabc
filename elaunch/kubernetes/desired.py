"""The heart of the operator: an ElasticJob, what it remembers and what is there, in; what to do and to say, out.

No clock, no socket. Called again with what its actions have brought about it comes to want nothing more; called again
before that, by itself or by another operator, it wants the same under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elaunch.kubernetes import crew, infrastructure
from elaunch.kubernetes.actions import PODS, Action, Create, Decision, Note, Scale
from elaunch.kubernetes.deciding import LOOK, decision, removed
from elaunch.kubernetes.judging import SUCCEEDED, delay, judge_job, judge_pods, learn, next_run, spare_success
from elaunch.kubernetes.memory import Memory, recall
from elaunch.kubernetes.names import pod_name
from elaunch.kubernetes.observed import Observed
from elaunch.kubernetes.spec import JobSpec, defects
from elaunch.kubernetes.status import Situation
from elaunch.kubernetes.stopping import finished, horizon, suspended
from elaunch.kubernetes.worker_pod import SECRET_AT, worker_pod

_SURELY = 0.2  # seconds by which a moment has passed when it is looked for again


def decide(spec: JobSpec, status: Mapping[str, Any], seen: Observed, now: float) -> Decision:
    """What to do next. ``now`` is in wall-clock seconds: what is remembered outlives this process."""
    memory = recall(status)
    memory = replace(memory, avoided=tuple(a for a in memory.avoided if a.until > now))
    if wrong := [*defects(spec), *infrastructure.misfits(spec, seen)]:
        note = Note("InvalidSpec", "; ".join(wrong), str(spec.asked), warning=True)
        return decision(spec, memory, status, seen, now, Situation(defects=tuple(wrong)), notes=[note])
    was_over = bool(memory.outcome)
    memory = spare_success(memory, seen, now)
    memory, notes = learn(memory, seen.truth)
    if seen.trouble:
        notes.append(Note("Refused", seen.trouble, seen.trouble, warning=True))
    memory, told = judge_job(spec, memory, seen, now)
    notes += told
    memory = judge_pods(spec, memory, seen, now)
    memory = _avoid_quarantined(spec, memory, seen, now)
    if memory.outcome:
        if not was_over:
            failed = memory.outcome != SUCCEEDED
            notes.append(Note(memory.outcome, memory.message or memory.reason, "outcome", failed))
        return finished(spec, memory, status, seen, now, notes)
    actions = infrastructure.ensure(spec, seen)
    rescued, left = infrastructure.rescue(spec, seen, now)
    for stuck in rescued:
        actions.append(stuck)
        notes.append(Note("EtcdNodeLost", f"{stuck.name} is on a lost node: another one is started", stuck.uid, True))
    if spec.suspend:
        decided = suspended(spec, memory, status, seen, now, actions, notes)
    else:
        decided = _running(spec, memory, status, seen, now, actions, notes)
    return decided if left is None else replace(decided, again=min(decided.again or LOOK, left + _SURELY))


def _running(
    spec: JobSpec,
    memory: Memory,
    status: Mapping[str, Any],
    seen: Observed,
    now: float,
    actions: list[Action],
    notes: list[Note],
) -> Decision:
    if memory.run.begun and memory.run.digest != spec.digest:
        memory = replace(memory, run=next_run(memory.run))
        text = "the pods' template has changed: all pods are stopped, and started anew from the last checkpoint"
        notes.append(Note("TemplateChanged", text, f"template-{spec.digest}-{memory.run.number}"))
    waits, again = "", None
    if not memory.run.begun:
        memory, waits, again = _begin(spec, memory, seen, now)
    if not memory.run.begun:
        stale = [pod for pod in seen.pods if pod.alive and pod.run != memory.run.number]
        actions += [removed(pod) for pod in stale]
        return decision(spec, memory, status, seen, now, Situation(waits=waits), actions, notes, again)
    wanted = crew.muster(spec, memory, seen, now)
    again = wanted.again
    actions += [removed(pod) for pod in (*wanted.remove, *crew.forgettable(spec, memory, seen.pods))]
    endpoints = infrastructure.endpoints(spec, seen)
    taken = [pod_name(spec.name, *one) for one in wanted.create if pod_name(spec.name, *one) in seen.strangers]
    if taken:
        waits = f"{', '.join(taken)} belongs to another owner; it is waited for"
    unready = infrastructure.unready(spec, seen) if wanted.create else ""
    for number, incarnation in wanted.create if not unready else ():
        if pod_name(spec.name, number, incarnation) in taken:
            continue
        actions.append(Create(PODS, worker_pod(spec, memory, number, incarnation, endpoints, _access(seen))))
        if (note := _replacement(spec, memory, seen, number, incarnation)) is not None:
            notes.append(note)
    waits = unready or waits
    scale, patience = _scaling(spec, memory, seen, now)
    actions += scale
    again = patience if again is None else min(again, patience or again)
    situation = Situation(waits=waits or wanted.waits, missing=len(wanted.create))
    return decision(spec, memory, status, seen, now, situation, actions, notes, again)


def _begin(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> tuple[Memory, str, float | None]:
    """The first pods of a run are started when none of an earlier one is left, and etcd answers.

    After runs that have failed in a row they wait longer each time; the last value is how long still.
    """
    if left := crew.unended([pod for pod in seen.pods if pod.run != memory.run.number], now):
        return memory, f"{len(left)} pods of before are still stopping", crew.lapse(left, now)
    run = memory.run
    if (rest := run.failed + delay(run.failures) - now) > 0:
        return memory, f"the job ended {run.failures} times in a row: its pods in {rest:.0f} s", rest
    if seen.truth is None:
        return memory, f"etcd does not answer yet: {seen.silence}" if seen.silence else "etcd is being started", None
    begun = replace(run, low=spec.min_replicas, high=spec.replicas, digest=spec.digest, horizon=horizon(memory, seen))
    return replace(memory, run=begun, begun=memory.begun or now), "", None


def _scaling(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> tuple[list[Action], float | None]:
    """The command that brings the job to the size that is wanted, once; None for no need to look again."""
    truth = seen.truth
    wish = (spec.min_replicas, spec.replicas)
    if truth is None or not truth.seats or not truth.high or truth.final or (truth.low, truth.high) == wish:
        return [], None
    if wish in truth.asked or (truth.denied and not truth.retry):
        return [], None
    if (rest := truth.retry - now) > 0:
        return [], rest
    if spec.replicas > truth.high:
        due, left = crew.growth_is_due(spec, memory, seen, now)
        if not due:
            return [], left
    return [Scale(*wish, spec.asked)], None


def _avoid_quarantined(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> Memory:
    """Nodes that the job's leader has put aside are nothing for new pods either."""
    for aside in seen.truth.quarantined if seen.truth is not None else ():
        node = seen.node_of(aside.host)
        if node and all(avoided.node != node for avoided in memory.avoided):
            memory = memory.with_avoided(node, now + spec.policy.avoid_seconds, aside.why)
    return memory


def _replacement(spec: JobSpec, memory: Memory, seen: Observed, number: int, incarnation: int) -> Note | None:
    if incarnation == 1 or all(pod.run != memory.run.number for pod in seen.pods):
        return None  # the run begins
    name = pod_name(spec.name, number, incarnation)
    before = next((pod for pod in seen.pods if (pod.slot, pod.incarnation) == (number, incarnation - 1)), None)
    if before is None:
        return Note("PodStarted", f"{name} is started in slot {number}", name)
    how = f"ended with {before.code}" if before.code is not None else (before.reason or "is being deleted").lower()
    if before.code is not None and before.reason not in ("", "Error", "Completed"):
        how += f" ({before.reason})"
    text = f"{before.name} on {before.node or 'no node'} {how}: {name} takes its place"
    return Note("PodReplaced", text, name, warning=before.ended)


def _access(seen: Observed) -> tuple[str, ...]:
    """How a pod is to speak to an external etcd: what stands in its secret, as --rdzv-conf has it."""
    known = {"ca.crt": "cacert", "tls.crt": "cert", "tls.key": "key"}
    files = [f"{option}={SECRET_AT}/{name}" for name, option in known.items() if name in seen.shown]
    return (*files, *([f"user={seen.user}"] if seen.user else []))
