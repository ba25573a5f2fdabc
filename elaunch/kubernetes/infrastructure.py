"""What a job needs beside its pods: a headless service, an etcd, a disruption budget. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elaunch.kubernetes.actions import BUDGETS, PODS, SERVICES, STATEFUL_SETS, Action, Amend, Create, Remove
from elaunch.kubernetes.etcd_set import etcd_service, etcd_set, member_names
from elaunch.kubernetes.names import ETCD_PORT, WORKER, labels, owner, selector
from elaunch.kubernetes.observed import OVERDUE, Observed
from elaunch.kubernetes.spec import JobSpec


def ensure(spec: JobSpec, seen: Observed) -> list[Action]:
    """What is missing, or not as it should be."""
    missing: list[Action] = []
    if seen.service is None:
        missing.append(Create(SERVICES, service(spec)))
    if spec.etcd.managed and seen.etcd_service is None:
        missing.append(Create(SERVICES, etcd_service(spec)))
    if spec.etcd.managed and seen.etcd_set is None:
        missing.append(Create(STATEFUL_SETS, etcd_set(spec)))
    if not seen.budget_version:
        return missing
    if seen.budget is None and spec.budget:
        missing.append(Create(BUDGETS, budget(spec, seen.budget_version)))
    elif seen.budget is not None and not spec.budget:
        missing.append(_removed(BUDGETS, seen.budget))
    elif seen.budget is not None and seen.budget["spec"].get("minAvailable") != spec.least_available:
        missing.append(Amend(BUDGETS, spec.name, {"spec": {"minAvailable": spec.least_available}}))
    return [action for action in missing if not (isinstance(action, Create) and action.name in seen.foreign)]


def misfits(spec: JobSpec, seen: Observed) -> list[str]:
    """What the job's own etcd, which is there, cannot become: a sentence each."""
    if seen.etcd_set is None:
        return []
    there = seen.etcd_set["spec"]
    members, kept = int(there.get("replicas", 1)), bool(there.get("volumeClaimTemplates"))
    storage = "with storage" if kept else "without storage"
    if spec.etcd.managed and (spec.etcd.members, bool(spec.etcd.storage)) == (members, kept):
        return []
    return [
        f"spec.etcd is another one than the job was started with (managed, members: {members}, {storage}), and it knows"
        " what the job has reached: put it back, or make another ElasticJob"
    ]


def rescue(spec: JobSpec, seen: Observed, now: float) -> tuple[list[Remove], float | None]:
    """An etcd without storage that is on a lost node: its set makes no other before the pod is gone for good.

    Its data are lost in any case. One with storage is left to whoever knows that the volume is free. The last value is
    how long one that is stuck is waited for yet, in seconds. Nobody tells a machine that is silent to end it: it has
    its grace and no more.
    """
    if spec.etcd.storage:
        return [], None
    lost = [pod for pod in seen.members if pod.node in seen.lost_nodes and pod.leaving]
    due = {pod: pod.leaving + (0.0 if pod.node in seen.silent_nodes else OVERDUE) for pod in lost}
    stuck = [Remove(PODS, pod.name, pod.uid, force=True) for pod in lost if now > due[pod]]
    return stuck, min((at - now for at in due.values() if at >= now), default=None)


def dismantle(seen: Observed) -> list[Action]:
    """What a job that is over needs no more. Its services cost nothing, and go with it."""
    gone: list[Action] = []
    if seen.etcd_set is not None and not seen.etcd_set["metadata"].get("deletionTimestamp"):
        gone.append(_removed(STATEFUL_SETS, seen.etcd_set))
    if seen.budget is not None:
        gone.append(_removed(BUDGETS, seen.budget))
    return gone


def endpoints(spec: JobSpec, seen: Observed) -> tuple[str, ...]:
    """Where a job's agents find etcd, once there is a majority of it.

    An etcd without storage is named by address alone: agents must not find one that has forgotten them.
    """
    if not spec.etcd.managed:
        return spec.etcd.endpoints
    found = addresses(seen)
    if len(found) <= spec.etcd.members // 2:
        return ()
    names = tuple(f"{name}:{ETCD_PORT}" for name in member_names(spec)) if spec.etcd.storage else ()
    return (*names, *found)


def unready(spec: JobSpec, seen: Observed) -> str:
    """Why no pod can be given this etcd now, "" where one can.

    One without storage must have said that it is the one that is known: to a pod of before, another one would have the
    job begin without its generations.
    """
    if not endpoints(spec, seen):
        return "etcd has no address yet"
    if spec.etcd.managed and not spec.etcd.storage and seen.truth is None:
        return f"etcd does not answer yet: {seen.silence}" if seen.silence else "etcd is being started"
    return ""


def addresses(seen: Observed) -> tuple[str, ...]:
    """The addresses of the etcd's own pods: who looks for them needs no names."""
    pods = sorted((pod for pod in seen.members if pod.address and not pod.leaving), key=lambda pod: pod.name)
    return tuple(f"[{p.address}]:{ETCD_PORT}" if ":" in p.address else f"{p.address}:{ETCD_PORT}" for p in pods)


def service(spec: JobSpec) -> dict[str, Any]:
    """Gives the pods their names; before they are ready, as they must find each other to become it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": spec.name,
            "labels": labels(spec.name, WORKER),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(spec.name, WORKER),
        },
    }


def budget(spec: JobSpec, version: str) -> dict[str, Any]:
    """How many pods an eviction must leave."""
    return {
        "apiVersion": f"policy/{version}",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": spec.name,
            "labels": labels(spec.name, WORKER),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": {
            "minAvailable": spec.least_available,
            "selector": {"matchLabels": selector(spec.name, WORKER)},
        },
    }


def _removed(kind: str, found: Mapping[str, Any]) -> Remove:
    return Remove(kind, found["metadata"]["name"], found["metadata"]["uid"])
