"""One look at a job: what the API server has, then what etcd has, so that the latter is never older."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from elaunch.errors import ElaunchError, UsageError
from elaunch.kubernetes import infrastructure
from elaunch.kubernetes.cluster import ApiError, Cluster
from elaunch.kubernetes.job_view import truth_of
from elaunch.kubernetes.memory import recall
from elaunch.kubernetes.names import etcd_name, owned_by, selector_text
from elaunch.kubernetes.observed import Observed, Pod, Truth, read_pod
from elaunch.kubernetes.spec import JobSpec
from elaunch.kubernetes.way import Way, data_of
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.waiting import within

_PATIENCE = 6.0  # seconds for etcd to tell all


async def look(cluster: Cluster, spec: JobSpec, status: Mapping[str, Any], way: Way) -> Observed:
    """Raises ApiError; an etcd that does not answer, or a secret for it that cannot be had, is ``silence``."""
    trouble = await _secret(cluster, spec, way)
    namespace, etcd = spec.namespace, etcd_name(spec.name)
    found, service, etcd_service, etcd_set, budget = await asyncio.gather(
        cluster.list("pods", namespace, selector_text(spec.name)),
        cluster.get("services", namespace, spec.name),
        cluster.get("services", namespace, etcd),
        cluster.get("statefulsets", namespace, etcd),
        _budget(cluster, spec),
    )
    pods = [read_pod(pod) for pod in found if owned_by(pod, spec.uid)]
    members = [read_pod(pod) for pod in found if _is_member(pod, etcd_set)]
    others = [pod["metadata"]["name"] for pod in found if not (owned_by(pod, spec.uid) or _is_member(pod, etcd_set))]
    objects = {"service": service, "etcd_service": etcd_service, "etcd_set": etcd_set, "budget": budget}
    foreign = [o for o in objects.values() if o is not None and not owned_by(o, spec.uid)]
    mine = {name: o if o is not None and owned_by(o, spec.uid) else None for name, o in objects.items()}
    readiness = await _readiness(cluster, members)
    seen = Observed(
        pods=tuple(pods),
        members=tuple(members),
        service=mine["service"],
        etcd_service=mine["etcd_service"],
        etcd_set=mine["etcd_set"],
        budget=mine["budget"],
        budget_version=cluster.budget_version,
        foreign=tuple(o["metadata"]["name"] for o in foreign),
        strangers=tuple(others),
        shown=tuple(sorted(way.shown)),
        user=way.shown.get("username", b"").decode(errors="replace").strip(),
        silence=trouble,
        lost_nodes=tuple(node for node, ready in readiness.items() if ready != "True"),
        silent_nodes=tuple(node for node, ready in readiness.items() if ready == "Unknown"),
    )
    return seen if trouble else await _heard(spec, status, seen, way)


async def _secret(cluster: Cluster, spec: JobSpec, way: Way) -> str:
    """Have ``way`` show what the job's secret holds; why that cannot be, "" where it is done."""
    if not spec.etcd.secret:
        way.show({})  # it may have had one before
        return ""
    try:
        way.show(data_of(spec, await cluster.get("secrets", spec.namespace, spec.etcd.secret)))
    except UsageError as error:
        return str(error)
    except ApiError as error:
        if error.status != 403:
            raise
        return (
            f"the operator may not read the secret {spec.etcd.secret} (deploy/kubernetes/secret-reader.yaml): {error}"
        )
    return ""


async def _heard(spec: JobSpec, status: Mapping[str, Any], seen: Observed, way: Way) -> Observed:
    addresses = infrastructure.addresses(seen) if spec.etcd.managed else spec.etcd.endpoints
    if not addresses:
        waits = next((pod.message for pod in seen.members if pod.message), "")
        return replace(seen, silence=waits and f"etcd has no address yet: {waits}")
    memory = recall(status)
    try:
        store = await way.to(addresses)
        line = memory.line if memory.cluster else -1
        truth: Truth = await within(_PATIENCE, truth_of(store, spec.job, spec.asked, line))
        if memory.cluster and truth.cluster != memory.cluster and line >= 0:
            truth = await within(_PATIENCE, _anew(store, spec))
    except asyncio.TimeoutError:
        return replace(seen, silence=f"etcd at {', '.join(addresses)} has not told all within {_PATIENCE:.0f} s")
    except ElaunchError as error:
        return replace(seen, silence=str(error))
    return replace(seen, truth=truth)


async def _anew(store: EtcdStore, spec: JobSpec) -> Truth:
    """Another etcd has another history, of which we know nothing yet."""
    return await truth_of(store, spec.job, spec.asked, -1)


async def _readiness(cluster: Cluster, members: Sequence[Pod]) -> dict[str, str]:
    """Asked only of those on which a member of etcd cannot end."""
    nodes = sorted({pod.node for pod in members if pod.leaving and pod.node})
    return {node: await cluster.readiness(node) for node in nodes}


async def _budget(cluster: Cluster, spec: JobSpec) -> dict[str, Any] | None:
    if not cluster.budget_version:
        return None
    return await cluster.get("poddisruptionbudgets", spec.namespace, spec.name)


def _is_member(pod: Mapping[str, Any], etcd_set: Mapping[str, Any] | None) -> bool:
    return etcd_set is not None and owned_by(pod, etcd_set["metadata"]["uid"])
