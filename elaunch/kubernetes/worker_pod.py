"""The pod of one slot: the user's template, with the command and surroundings that make it a node of the job."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from elaunch.kubernetes.memory import Memory
from elaunch.kubernetes.names import HASH, INCARNATION, RUN, SLOT, WORKER, labels, owner, pod_name
from elaunch.kubernetes.observed import MAIN
from elaunch.kubernetes.spec import JobSpec
from elaunch.schedulers.manifests import PROBES

SCRATCH = "/tmp"
SECRET_AT = "/etc/elaunch/etcd"
_NODE_GONE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIELDS = {
    "ELAUNCH_POD_NAME": "metadata.name",
    "ELAUNCH_POD_NAMESPACE": "metadata.namespace",
    "ELAUNCH_POD_IP": "status.podIP",
    "ELAUNCH_POD_NODE": "spec.nodeName",
}


def worker_pod(
    spec: JobSpec,
    memory: Memory,
    slot: int,
    incarnation: int,
    endpoints: tuple[str, ...],
    access: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The pod of ``slot``; ``endpoints`` are the etcd's, ``access`` is how to speak to it, as --rdzv-conf has it."""
    template: dict[str, Any] = deepcopy(dict(spec.template))
    metadata = template.get("metadata") or {}
    marks = {
        SLOT: str(slot),
        INCARNATION: str(incarnation),
        RUN: str(memory.run.number),
        HASH: memory.run.digest,
    }
    name = pod_name(spec.name, slot, incarnation)
    pod = template.get("spec") or {}
    pod["restartPolicy"] = "Never"
    pod["terminationGracePeriodSeconds"] = spec.grace
    pod.setdefault("hostname", name)
    pod.setdefault("subdomain", spec.name)
    pod.setdefault("enableServiceLinks", False)
    tolerate(pod, spec.node_lost)
    _avoid(pod, memory, spec.policy.avoid_required)
    _fill(pod, spec, slot, memory.floor, [*_options(spec, memory, endpoints, access), *spec.options])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**(metadata.get("labels") or {}), **labels(spec.name, WORKER), **marks},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": pod,
    }


def _fill(pod: dict[str, Any], spec: JobSpec, slot: int, floor: int, options: list[str]) -> None:
    containers = pod["containers"]
    main = next((c for c in containers if c.get("name") == MAIN), containers[0])
    main["command"] = list(spec.command)
    main["args"] = [*options, *spec.program]
    own = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _FIELDS.items()]
    values = {
        "ELAUNCH_POD_JOB": spec.name,
        "ELAUNCH_POD_INDEX": str(slot),
        "ELAUNCH_POD_SUBDOMAIN": spec.name,
        "ELAUNCH_POD_FLOOR": str(floor),
        "ELAUNCH_POD_INCARNATION": spec.uid,
        "ELAUNCH_GRACE_PERIOD": str(spec.grace),
    }
    own += [{"name": name, "value": value} for name, value in values.items()]
    if spec.etcd.secret:
        key = {"name": spec.etcd.secret, "key": "password", "optional": True}
        own.append({"name": "ELAUNCH_ETCD_PASSWORD", "valueFrom": {"secretKeyRef": key}})
        mount = {"name": "elaunch-etcd", "mountPath": SECRET_AT, "readOnly": True}
        main["volumeMounts"] = [*(main.get("volumeMounts") or ()), mount]
        volume = {"name": "elaunch-etcd", "secret": {"secretName": spec.etcd.secret}}
        pod["volumes"] = [*(pod.get("volumes") or ()), volume]
    names = {variable["name"] for variable in own}
    main["env"] = [*own, *(v for v in main.get("env") or () if v["name"] not in names)]
    main.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    _scratch(pod, main)
    if spec.command == ("elaunch",):
        if "livenessProbe" not in main:
            main.setdefault("startupProbe", deepcopy(PROBES["startupProbe"]))
        for probe, period, failures in (("live", 10, 6), ("ready", 5, 1)):
            command = {"exec": {"command": ["elaunch", "kubernetes", "probe", probe]}}
            timing = {"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 10}
            main.setdefault("livenessProbe" if probe == "live" else "readinessProbe", command | timing)


def _scratch(pod: dict[str, Any], main: dict[str, Any]) -> None:
    """Room at /tmp where there is none: an agent writes there that it lives, and is ended where it cannot."""
    mounts = main.get("volumeMounts") or []
    read_only = (main.get("securityContext") or {}).get("readOnlyRootFilesystem") is True
    if not read_only or any(str(mount.get("mountPath")).rstrip("/") == SCRATCH for mount in mounts):
        return
    main["volumeMounts"] = [*mounts, {"name": "elaunch-tmp", "mountPath": SCRATCH}]
    pod["volumes"] = [*(pod.get("volumes") or ()), {"name": "elaunch-tmp", "emptyDir": {}}]


def _options(spec: JobSpec, memory: Memory, endpoints: tuple[str, ...], access: tuple[str, ...]) -> list[str]:
    """What makes the container a node of this job; all nodes of a run are told the same."""
    run = memory.run
    options = [
        f"--nnodes={run.low}:{run.high}",
        f"--nproc-per-node={spec.nproc}",
        f"--spares={spec.spares}",
        "--rdzv-backend=etcd",
        f"--rdzv-endpoint={','.join(endpoints)}",
        f"--rdzv-id={spec.job}",
        "--local-addr=$(ELAUNCH_POD_IP)",
    ]
    return [*options, f"--rdzv-conf={','.join(access)}"] if access else options


def tolerate(pod: dict[str, Any], seconds: int) -> None:
    """A node that is gone is given up after so long; Kubernetes' own five minutes are for what cannot fence itself."""
    given = list(pod.get("tolerations") or ())
    known = {toleration.get("key") for toleration in given}
    for key in _NODE_GONE:
        if key not in known:
            told = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            given.append(told)
    pod["tolerations"] = given


def _avoid(pod: dict[str, Any], memory: Memory, required: bool) -> None:
    """Keep away from nodes at fault: rather, or at all costs."""
    if not memory.avoided:
        return
    # By name, which is not everywhere the label kubernetes.io/hostname; a field takes one value at a time.
    nodes = sorted(avoided.node for avoided in memory.avoided)
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    affinity = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if not required:
        weighed = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        weighed.append({"weight": 100, "preference": {"matchFields": fields}})
        return
    needed = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    for alternative in needed["nodeSelectorTerms"]:
        alternative["matchFields"] = [*alternative.get("matchFields", ()), *fields]
