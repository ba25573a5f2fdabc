"""The status of a pod as a node tells it: values in, values out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Protocol


class Told(Protocol):
    """What is known of a container."""

    ready: bool
    restarts: int
    state: dict[str, Any]

    @property
    def name(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    def status(self) -> dict[str, Any]: ...


class Pod(Protocol):
    pod: Any
    policy: str
    over: bool
    address: str
    node: Any

    @property
    def inits(self) -> Sequence[Told]: ...
    @property
    def containers(self) -> Sequence[Told]: ...


def pod_status(pod: Pod) -> dict[str, Any]:
    where = {"podIP": pod.address, "podIPs": [{"ip": pod.address}]} if pod.address else {}
    return {
        "phase": phase(pod),
        "hostIP": pod.node.address,
        **where,
        "startTime": pod.pod["status"].get("startTime") or _now(),
        "conditions": _conditions(pod),
        "initContainerStatuses": [container.status() for container in pod.inits],
        "containerStatuses": [container.status() for container in pod.containers],
    }


def phase(pod: Pod) -> str:
    if pod.over and pod.policy != "Always":
        codes = [container.exit_code for container in pod.containers]
        return "Succeeded" if all(code == 0 for code in codes) else "Failed"
    started = any("waiting" not in c.state or c.restarts for c in pod.containers)
    return "Running" if started else "Pending"


def _conditions(pod: Pod) -> list[dict[str, Any]]:
    initialized = all(container.exit_code == 0 for container in pod.inits)
    unready = [container.name for container in pod.containers if not container.ready]
    ready = not unready and not pod.over
    reason = "" if ready else "PodCompleted" if phase(pod) == "Succeeded" else "ContainersNotReady"
    message = "" if ready or reason == "PodCompleted" else f"containers with unready status: {unready}"
    wanted = [
        ("Initialized", initialized, "" if initialized else "ContainersNotInitialized", ""),
        ("Ready", ready, reason, message),
        ("ContainersReady", ready, reason, message),
    ]
    before = {c["type"]: c for c in pod.pod["status"].get("conditions") or ()}
    return [_condition(before.get(kind, {}), kind, str(holds), why, text) for kind, holds, why, text in wanted]


def _condition(before: dict[str, Any], kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since or _now(),
        "reason": reason or None,
        "message": message or None,
    }


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
