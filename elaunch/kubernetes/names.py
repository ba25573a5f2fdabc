"""The names of a job's objects: deterministic, so that whoever creates one twice is told that it exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GROUP: Final = "elaunch.dev"
VERSION: Final = "v1alpha1"
PLURAL: Final = "elasticjobs"
KIND: Final = "ElasticJob"
API_VERSION: Final = f"{GROUP}/{VERSION}"

JOB: Final = f"{GROUP}/job"
ROLE: Final = f"{GROUP}/role"
SLOT: Final = f"{GROUP}/slot"
INCARNATION: Final = f"{GROUP}/incarnation"
RUN: Final = f"{GROUP}/run"
HASH: Final = f"{GROUP}/template-hash"

WORKER: Final = "worker"
ETCD: Final = "etcd"
MANAGER: Final = "elaunch-operator"
ETCD_PORT: Final = 2379
PEER_PORT: Final = 2380
LONGEST: Final = 40  # characters of a job's name: pods' names, which are host names, hold two numbers more


def etcd_name(job: str) -> str:
    return f"{job}-etcd"


def pod_name(job: str, slot: int, incarnation: int) -> str:
    return f"{job}-{slot}-{incarnation}"


def job_id(namespace: str, name: str, uid: str) -> str:
    """The job's name in etcd: another ElasticJob of the same name is another job."""
    return f"{namespace}.{name}.{uid[:8]}"


def labels(job: str, role: str) -> dict[str, str]:
    """What every object of a job carries, and is found by."""
    return {
        "app.kubernetes.io/name": "elaunch",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": MANAGER,
        **selector(job, role),
    }


def selector(job: str, role: str) -> dict[str, str]:
    return {JOB: job, ROLE: role}


def selector_text(job: str, role: str | None = None) -> str:
    """As ``?labelSelector=`` takes it."""
    return f"{JOB}={job}" + (f",{ROLE}={role}" if role else "")


def owner(job: str, uid: str) -> dict[str, Any]:
    """The ownerReference by which an object goes with its ElasticJob."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by(found: Mapping[str, Any], uid: str) -> bool:
    """Whether an object as the server has it belongs to the ElasticJob of this uid."""
    references = found.get("metadata", {}).get("ownerReferences") or ()
    return any(reference.get("uid") == uid for reference in references)
