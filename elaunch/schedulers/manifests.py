"""The objects that make a job in Kubernetes, from a few wishes. Values only: wishes in, documents out."""

from __future__ import annotations

from typing import Any

from elaunch.schedulers.kubernetes import PORT
from elaunch.schedulers.pod_wishes import Wishes

Document = dict[str, Any]

JOB, ROLE = "elaunch.dev/job", "elaunch.dev/role"
USER = 10_001  # of the image; any other will do as well
AGAIN = (85, 143)  # stopped by Kubernetes before it was done: docs/exit-codes.md
COUNTED = (69, 71, 75, 95, 128, 135, 137)  # etcd lost, too few pods, this node's fault, killed: another may do better
_FIELDS = {
    "ELAUNCH_POD_NAME": "metadata.name",
    "ELAUNCH_POD_NAMESPACE": "metadata.namespace",
    "ELAUNCH_POD_IP": "status.podIP",
    "ELAUNCH_POD_NODE": "spec.nodeName",
}
_JOBSET_FIELDS = {
    "JOBSET_NAME": "metadata.annotations['jobset.sigs.k8s.io/jobset-name']",
    "JOBSET_RESTART_ATTEMPT": "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']",
}


def documents_of(wishes: Wishes) -> list[Document]:
    """What is to be created, the job itself first."""
    if wishes.kind == "elasticjob":
        return [_elastic_job(wishes)]
    if wishes.kind == "jobset":
        return [_job_set(wishes)]
    job = {"apiVersion": "batch/v1", "kind": "Job", **_metadata(wishes), "spec": _job_spec(wishes)}
    return [job, _service(wishes)]


def _metadata(wishes: Wishes) -> Document:
    place = {"namespace": wishes.namespace} if wishes.namespace else {}
    queue = {"kueue.x-k8s.io/queue-name": wishes.queue} if wishes.queue else {}
    return {"metadata": {"name": wishes.name, **place, "labels": {**_labels(wishes), **queue}}}


def _labels(wishes: Wishes) -> dict[str, str]:
    return {"app.kubernetes.io/name": "elaunch", "app.kubernetes.io/instance": wishes.name, JOB: wishes.name}


def _service(wishes: Wishes) -> Document:
    """Gives the pods names, also before they are ready: they meet before they are."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB: wishes.name, ROLE: "worker"}}
    ports = {"ports": [{"name": "rendezvous", "port": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", **_metadata(wishes), "spec": {**spec, **ports}}


def _job_spec(wishes: Wishes) -> Document:
    pods = wishes.nodes + wishes.spares
    never = {"operator": "NotIn", "values": sorted((*AGAIN, *COUNTED))}
    return {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        **({"suspend": True} if wishes.queue and wishes.kind == "job" else {}),
        "backoffLimit": wishes.retries,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": sorted(AGAIN)}},
                {"action": "FailJob", "onExitCodes": never},
            ]
        },
        "template": _template(wishes),
    }


def _job_set(wishes: Wishes) -> Document:
    failed = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        **_metadata(wishes),
        "spec": {
            **({"suspend": True} if wishes.queue else {}),
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": min(wishes.retries, 10), "rules": [failed]},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": _job_spec(wishes)}}],
        },
    }


def _elastic_job(wishes: Wishes) -> Document:
    etcd: Document = {}
    if wishes.etcd:
        etcd = {"etcd": {"external": {"endpoints": wishes.etcd.split(",")}}}
    elif wishes.etcd_storage:
        etcd = {"etcd": {"managed": {"members": 3, "storage": {"size": wishes.etcd_storage}}}}
    return {
        "apiVersion": "elaunch.dev/v1alpha1",
        "kind": "ElasticJob",
        **_metadata(wishes),
        "spec": {
            "replicas": wishes.nodes,
            **({"minReplicas": wishes.min_nodes} if wishes.min_nodes else {}),
            **({"spares": wishes.spares} if wishes.spares else {}),
            "nprocPerNode": wishes.gpus or 1,
            "program": list(wishes.program),
            **({"options": list(wishes.options)} if wishes.options else {}),
            "terminationGracePeriodSeconds": wishes.grace,
            "failurePolicy": {"maxReplacements": wishes.retries},
            **etcd,
            "template": _template(wishes),
        },
    }


def _template(wishes: Wishes) -> Document:
    elastic = wishes.kind == "elasticjob"
    selector = dict(pair.split("=", 1) for pair in wishes.node_selector)
    tolerations = [{"key": key, "operator": "Exists"} for key in wishes.tolerate]
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    spec = {
        **({} if elastic else {"restartPolicy": "Never", "terminationGracePeriodSeconds": wishes.grace}),
        **({"subdomain": wishes.name} if wishes.kind == "job" else {}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"serviceAccountName": wishes.service_account} if wishes.service_account else {}),
        **({"priorityClassName": wishes.priority} if wishes.priority else {}),
        **({"nodeSelector": selector} if selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
        "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {JOB: wishes.name}}}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(wishes)],
        "volumes": _volumes(wishes),
    }
    return {"metadata": {"labels": {**_labels(wishes), ROLE: "worker"}}, "spec": spec}


def _container(wishes: Wishes) -> Document:
    elastic = wishes.kind == "elasticjob"
    limits = {
        "cpu": wishes.cpus,
        "memory": wishes.memory,
        **({wishes.gpu_resource: wishes.gpus} if wishes.gpus else {}),
    }
    env = [*([] if elastic else _env(wishes)), *(_pair(*text.split("=", 1)) for text in wishes.env)]
    claims = [text.split(":", 1) for text in wishes.volumes]
    mounts = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "shm", "mountPath": "/dev/shm"}]
    return {
        "name": "elaunch",
        "image": wishes.image,
        **({} if elastic else {"command": ["elaunch"], "args": _arguments(wishes)}),
        **({"env": env} if env else {}),
        **({} if elastic else {"ports": [{"name": "rendezvous", "containerPort": PORT}]}),
        "resources": {"requests": limits, "limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **({} if elastic else PROBES),
        "volumeMounts": [*mounts, *({"name": _volume(claim), "mountPath": path} for claim, path in claims)],
    }


def _probe(what: str, **more: int) -> Document:
    return {"exec": {"command": ["elaunch", "kubernetes", "probe", what]}, "timeoutSeconds": 5, **more}


PROBES: Document = {
    "startupProbe": _probe("live", periodSeconds=2, failureThreshold=60),
    "livenessProbe": _probe("live", periodSeconds=20, failureThreshold=3),
    "readinessProbe": _probe("ready", periodSeconds=5, failureThreshold=1),
}
"""Of a container that ``elaunch`` is the first process of."""


def _env(wishes: Wishes) -> list[Document]:
    told = _FIELDS | (_JOBSET_FIELDS if wishes.kind == "jobset" else {})
    values = {"ELAUNCH_POD_COUNT": str(wishes.nodes + wishes.spares), "ELAUNCH_GRACE_PERIOD": str(wishes.grace)}
    if wishes.kind == "job":
        values["ELAUNCH_POD_JOB"] = wishes.name
    fields = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in told.items()]
    return [*fields, *(_pair(*pair) for pair in values.items())]


def _arguments(wishes: Wishes) -> list[str]:
    given = {"spares": wishes.spares, "min-nodes": wishes.min_nodes, "nproc-per-node": wishes.gpus}
    meeting = ["--rdzv-backend=etcd", f"--rdzv-endpoint={wishes.etcd}"] if wishes.etcd else []
    return [
        *(f"--{name}={value}" for name, value in given.items() if value),
        *meeting,
        *wishes.options,
        *wishes.program,
    ]


def _pair(name: str, value: str) -> Document:
    return {"name": name, "value": value}


def _volumes(wishes: Wishes) -> list[Document]:
    """/dev/shm is where data loaders hand tensors over: what a container has there by itself is 64 MB."""
    shared = {"medium": "Memory", "sizeLimit": wishes.shm or wishes.memory}
    own = [{"name": "tmp", "emptyDir": {}}, {"name": "shm", "emptyDir": shared}]
    claims = [text.split(":", 1)[0] for text in wishes.volumes]
    return [
        *own,
        *({"name": _volume(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in dict.fromkeys(claims)),
    ]


def _volume(claim: str) -> str:
    """A volume's name has no dots, a claim's may."""
    return f"claim-{claim.replace('.', '-')}"
