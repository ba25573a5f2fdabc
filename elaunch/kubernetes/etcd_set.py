"""The etcd of one job: a StatefulSet of one member, or of three on volumes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elaunch.kubernetes.names import ETCD, ETCD_PORT, PEER_PORT, etcd_name, labels, owner, selector
from elaunch.kubernetes.observed import main_container
from elaunch.kubernetes.spec import JobSpec
from elaunch.kubernetes.worker_pod import tolerate

DATA = "/var/lib/elaunch-etcd"
_SHARED = ("serviceAccountName", "imagePullSecrets", "securityContext", "priorityClassName", "schedulerName")
_WHO = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions")
_SMALL = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


def member_names(spec: JobSpec) -> tuple[str, ...]:
    """The members' names as the cluster's DNS has them."""
    base = etcd_name(spec.name)
    return tuple(f"{base}-{i}.{base}.{spec.namespace}.svc" for i in range(spec.etcd.members))


def etcd_service(spec: JobSpec) -> dict[str, Any]:
    """The members must find each other before any of them is ready."""
    ports = {"client": ETCD_PORT, "peer": PEER_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": etcd_name(spec.name),
            "labels": labels(spec.name, ETCD),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(spec.name, ETCD),
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        },
    }


def etcd_set(spec: JobSpec) -> dict[str, Any]:
    """A StatefulSet, since a member is known by its name; three must be started at once to find each other."""
    name = etcd_name(spec.name)
    found: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "labels": labels(spec.name, ETCD),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": {
            "replicas": spec.etcd.members,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(spec.name, ETCD)},
            "template": {
                "metadata": {"labels": labels(spec.name, ETCD)},
                "spec": _pod(spec),
            },
        },
    }
    if spec.etcd.storage:
        found["spec"]["volumeClaimTemplates"] = [_claim(spec)]
    return found


def _pod(spec: JobSpec) -> dict[str, Any]:
    """As the workers' pods where the cluster's rules are concerned: same account, same secrets for images."""
    template = spec.template["spec"]
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": 10,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(spec)],
    }
    for shared in _SHARED:
        if shared in template:
            pod[shared] = template[shared]
    tolerate(pod, spec.node_lost)
    if not spec.etcd.storage:
        pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    if spec.etcd.members > 1:
        pod["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart(spec)]}}
    return pod


def _apart(spec: JobSpec) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": selector(spec.name, ETCD)}, "topologyKey": "kubernetes.io/hostname"}
    return {"weight": 100, "podAffinityTerm": term}


def _container(spec: JobSpec) -> dict[str, Any]:
    main = main_container(spec.template["spec"]["containers"])
    container: dict[str, Any] = {
        "name": "etcd",
        "command": ["etcd"],
        "args": _arguments(spec),
        "env": [
            _field("POD_NAME", "metadata.name"),
            _field("POD_UID", "metadata.uid"),
            _field("POD_IP", "status.podIP"),
        ],
        "ports": [
            {"name": "client", "containerPort": ETCD_PORT},
            {"name": "peer", "containerPort": PEER_PORT},
        ],
        "volumeMounts": [{"name": "data", "mountPath": DATA}],
        "resources": spec.etcd.resources or _SMALL,
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": ETCD_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
    }
    if image := spec.etcd.image or main.get("image"):
        container["image"] = image
    if "imagePullPolicy" in main and not spec.etcd.image:
        container["imagePullPolicy"] = main["imagePullPolicy"]
    container["securityContext"] = _little(main.get("securityContext") or {})
    return container


def _little(workers: Mapping[str, Any]) -> dict[str, Any]:
    """Of what the workers' container may do, who it is; etcd needs neither their devices nor their capabilities."""
    who = {name: workers[name] for name in _WHO if name in workers}
    return {
        **who,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _arguments(spec: JobSpec) -> list[str]:
    """One member is known by its address; several by their names, which stay when addresses change.

    A single one that begins without data is another cluster, by its token: its id must tell so.
    """
    base, members = etcd_name(spec.name), member_names(spec)
    own = "$(POD_IP)" if len(members) == 1 else f"$(POD_NAME).{base}.{spec.namespace}.svc"
    everyone = [f"{base}-{i}=http://{name}:{PEER_PORT}" for i, name in enumerate(members)]
    cluster = f"$(POD_NAME)=http://{own}:{PEER_PORT}" if len(members) == 1 else ",".join(everyone)
    return [
        "--name=$(POD_NAME)",
        f"--data-dir={DATA}/data",
        f"--listen-client-urls=http://$(POD_IP):{ETCD_PORT}",
        f"--advertise-client-urls=http://{own}:{ETCD_PORT}",
        f"--listen-peer-urls=http://$(POD_IP):{PEER_PORT}",
        f"--initial-advertise-peer-urls=http://{own}:{PEER_PORT}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={'$(POD_UID)' if len(members) == 1 else spec.job}",
        "--initial-cluster-state=new",
        "--auto-compaction-retention=1",
    ]


def _claim(spec: JobSpec) -> dict[str, Any]:
    """A volume for each member. It is the ElasticJob's, so that it goes with it, and not before."""
    storage = spec.etcd.storage
    claim: dict[str, Any] = {
        "metadata": {
            "name": "data",
            "labels": labels(spec.name, ETCD),
            "ownerReferences": [owner(spec.name, spec.uid)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage.get("size", "1Gi")}},
        },
    }
    if "storageClassName" in storage:
        claim["spec"]["storageClassName"] = storage["storageClassName"]
    return claim


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
