"""How pods and the job ended, and whose fault that was: values in, what is remembered of it out."""

from __future__ import annotations

from dataclasses import replace

from elaunch.errors import EtcdLostError
from elaunch.kubernetes.actions import Note
from elaunch.kubernetes.memory import Memory, Run, Slot
from elaunch.kubernetes.observed import Observed, Pod, Truth
from elaunch.kubernetes.rules import DISRUPTIONS, NODES_FAULT, PREEMPTED, TRANSIENT, USAGE, Action, of_job, of_pod, why
from elaunch.kubernetes.spec import JobSpec

SLACK = 1000  # generations by which the operator may have been behind an etcd that has lost its data
STEADY = 600.0  # seconds after which a pod's failure is no longer one of those before it
UNHEARD = 60.0  # seconds for etcd to say whether a pod's end was the job's
_DELAY, _LONGEST = 10.0, 300.0
SUCCEEDED, FAILED = "Succeeded", "Failed"

_UNREACHED = "did not answer"  # so elaunch says of an etcd, and ends with the code of bad input
_OF_THE_POD = frozenset((*PREEMPTED, *NODES_FAULT, *TRANSIENT))


def learn(memory: Memory, truth: Truth | None) -> tuple[Memory, list[Note]]:
    """``memory`` with what the job's leader says now. An etcd that has lost its data begins another run."""
    if truth is None:
        return memory, []
    notes = []
    if memory.cluster and truth.cluster != memory.cluster and not memory.outcome:
        floor = max(memory.floor, memory.generation) + SLACK  # also of a floor above which nothing was seen
        text = f"etcd has lost what it knew of the job: its pods start anew, with generations above {floor}"
        notes.append(Note("EtcdDataLost", text, f"etcd-{truth.cluster}", warning=True))
        memory = replace(memory, floor=floor, line=-1, run=next_run(memory.run, horizon=-1))
    memory = replace(memory, cluster=truth.cluster, line=max([memory.line, *(line.seq for line in truth.lines)]))
    if not truth.phase:
        return memory, notes
    generation = max(memory.generation, truth.generation)
    step = truth.step if truth.step >= 0 else memory.step
    return replace(memory, generation=generation, restarts=truth.restarts, step=step), notes


def spare_success(memory: Memory, seen: Observed, now: float) -> Memory:
    """``memory`` with the job's success, where etcd has lost what it knew of it and a pod still tells.

    To be asked before ``learn``, which takes the pods of such a run for done with.
    """
    truth = seen.truth
    lost = truth is not None and bool(memory.cluster) and truth.cluster != memory.cluster
    return _completed(memory, seen, now) if lost and not memory.outcome and memory.run.begun else memory


def _completed(memory: Memory, seen: Observed, now: float) -> Memory:
    """An agent ends with 0 only if every rank of every node did."""
    done = next((pod for pod in seen.pods if pod.run == memory.run.number and pod.code == 0), None)
    if done is None:
        return memory
    return over(memory, SUCCEEDED, "Completed", f"pod {done.name} ended with 0: all ranks did", now)


def next_run(run: Run, horizon: int | None = None) -> Run:
    """The run after this one, of which there is no pod yet."""
    return Run(run.number + 1, horizon=run.horizon if horizon is None else horizon)


def _failed_run(run: Run, horizon: int, now: float) -> Run:
    """The run after one that has ended and is to be started again."""
    steady = now - run.failed - delay(run.failures) >= STEADY
    return replace(next_run(run, horizon), failures=1 if steady else run.failures + 1, failed=now)


def delay(failures: int) -> float:
    """Seconds before the next try after so many failures in a row: the first is made good at once."""
    return 0.0 if failures < 2 else min(_DELAY * 2.0 ** min(failures - 2, 10), _LONGEST)


def judge_job(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> tuple[Memory, list[Note]]:
    """Whether the job is over, as its leader has written, or as all its pods say."""
    if memory.outcome or not memory.run.begun:
        return memory, []
    truth = seen.truth
    if truth is not None and truth.final and truth.horizon > memory.run.horizon:
        if truth.final == "succeeded":
            return over(memory, SUCCEEDED, "Completed", truth.text, now), []
        action = of_job(truth.exit_code, spec.policy.rules)
        if action is Action.FAIL:
            return over(memory, FAILED, why(truth.exit_code), truth.text, now), []
        ran = memory.run
        memory = replace(memory, run=next_run(ran, truth.horizon))
        if action is not Action.IGNORE and not spec.suspend:
            memory = replace(memory, replacements=memory.replacements + 1)
        if action is Action.ELSEWHERE:
            memory = memory.with_avoided(seen.node_of(truth.fault_host), now + spec.policy.avoid_seconds, truth.text)
        if spec.suspend:  # so it should
            return memory, []
        # Also one that counts nothing: who preempts a job again and again has no room for it yet.
        memory = replace(memory, run=_failed_run(ran, truth.horizon, now))
        pause = delay(memory.run.failures)
        when = f" in {pause:.0f} s" if pause else ""
        text = f"the job ended with {truth.exit_code} ({truth.text}): it is started again{when}"
        return _within_budget(spec, memory, now), [Note("JobRestarted", text, f"run-{memory.run.number}", True)]
    return _completed(memory, seen, now), []  # also where a pod that came too late has begun the job anew


def over(memory: Memory, outcome: str, reason: str, text: str, now: float) -> Memory:
    return replace(memory, outcome=outcome, reason=reason, message=text[:1000], over=now)


def judge_pods(spec: JobSpec, memory: Memory, seen: Observed, now: float) -> Memory:
    """Each pod's end once: the slot remembers the last incarnation whose end was looked at."""
    for pod in sorted(seen.pods, key=lambda p: (p.slot, p.incarnation)):
        slot = memory.slot(pod.slot)
        if pod.incarnation > slot.incarnation:
            slot = replace(slot, incarnation=pod.incarnation)
            memory = memory.with_slot(slot)
        if memory.outcome or not pod.ended or pod.incarnation <= slot.judged or pod.code == 0:
            continue
        if pod.run != memory.run.number:
            memory = memory.with_slot(replace(slot, judged=pod.incarnation))
        elif not undecided(pod, seen, now):
            memory = _judge(spec, memory, slot, pod, seen, now)
    return memory


def undecided(pod: Pod, seen: Observed, now: float) -> bool:
    """Whether etcd, which does not answer, must first say if this end was the job's: the code alone may mean both."""
    if pod.code is None or pod.code in _OF_THE_POD or _disrupted(pod):
        return False
    return seen.truth is None and now < (pod.until or pod.since) + UNHEARD


def _disrupted(pod: Pod) -> bool:
    return bool(pod.leaving) or pod.reason in DISRUPTIONS


def _judge(spec: JobSpec, memory: Memory, slot: Slot, pod: Pod, seen: Observed, now: float) -> Memory:
    action = _action(spec, memory, pod)
    code = pod.code if pod.code is not None else 128
    judged = replace(slot, judged=pod.incarnation)
    if action is Action.FAIL:
        text = f"pod {pod.name} ended with {code}: {pod.message}"
        return over(memory.with_slot(judged), FAILED, why(code), text, now)
    if pod.leaving or _without_etcd(spec, pod, seen):
        return memory.with_slot(judged)
    lived = (pod.until or now) - pod.since
    failures = 1 if lived >= STEADY else slot.failures + 1
    memory = memory.with_slot(replace(judged, failures=failures, failed=pod.until or now))
    if action is Action.IGNORE:  # it counts nothing, but one that ends again and again by itself is put off
        return memory
    memory = replace(memory, replacements=memory.replacements + 1)
    if action is Action.ELSEWHERE:
        memory = memory.with_avoided(pod.node, now + spec.policy.avoid_seconds, f"{pod.name} ended with {code}")
    return _within_budget(spec, memory, now)


def _without_etcd(spec: JobSpec, pod: Pod, seen: Observed) -> bool:
    """Whether it ended for want of an etcd that does not answer the operator either: no pod is to blame for that."""
    told = any(rule.matches(EtcdLostError.exit_code) for rule in spec.policy.rules)
    return seen.truth is None and pod.code == EtcdLostError.exit_code and not told


def _action(spec: JobSpec, memory: Memory, pod: Pod) -> Action:
    if _disrupted(pod):
        return Action.IGNORE
    if pod.code is None:
        return Action.ELSEWHERE  # the node did not get as far as to start it
    told = any(rule.matches(pod.code) for rule in spec.policy.rules)
    if pod.code == USAGE and not told and memory.generation <= memory.floor and _UNREACHED not in pod.message:
        return Action.FAIL  # nothing of this job has ever run: it is not this pod that is at fault
    return of_pod(pod.code, spec.policy.rules)


def _within_budget(spec: JobSpec, memory: Memory, now: float) -> Memory:
    most = spec.policy.max_replacements
    if memory.replacements <= most:
        return memory
    text = f"{memory.replacements} replacements for faults, {most} are allowed (failurePolicy.maxReplacements)"
    return over(memory, FAILED, "TooManyReplacements", text, now)
