"""In a pod an option that was not given has Kubernetes' value, where it has one: what is given wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from elaunch.agent.options import Scheduled
from elaunch.cli.parser import Values
from elaunch.cli.settings import checked, nodes, parse_nodes
from elaunch.errors import UsageError
from elaunch.schedulers.kubernetes import Pod, pod, siblings
from elaunch.schedulers.probe_file import place_of

_USUAL = 25.0  # seconds: from SIGTERM to SIGKILL where a rank has failed, however long the pod may take to leave
_PATIENCE = 3600.0  # seconds for the first pod to come
_ELSEWHERE = ("rdzv_endpoint", "standalone")


@dataclass(frozen=True, slots=True)
class Within:
    """``values`` with Kubernetes' in the place of defaults, and what else it says."""

    values: Values
    scheduled: Scheduled | None = None
    warnings: tuple[str, ...] = ()


def within_kubernetes(values: Values, environ: Mapping[str, str]) -> Within:
    """``values`` as they are outside of a pod. Raises UsageError."""
    try:
        here = pod(environ)
    except ValueError as error:
        raise UsageError(f"{error}; unset it to do without") from None
    if here is None:
        return Within(values)
    told, warnings = _size(values, here)
    values = replace(values, values={**values.values, **told})
    told |= _meeting(values, here)
    if not values.given("nproc_per_node") and here.index is not None and here.gpus:
        told["nproc_per_node"] = str(here.gpus)
    patience = not any(values.given(d) for d in ("grace_period", "shutdown_timeout"))
    if patience and not environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"):
        told["grace_period"] = min(_USUAL, here.time_to_leave)
    values = replace(values, values={**values.values, **told})
    scheduled = Scheduled(
        scheduler="Kubernetes",
        floor=here.floor,
        incarnation=here.incarnation,
        place=here.place(nodes(values)[1]),
        whole=False,
        replaces=True,
        leave_seconds=here.time_to_leave,
        probe_file=place_of(environ),
    )
    return Within(values, scheduled, warnings)


def _size(values: Values, here: Pod) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How many nodes there are, where that was told."""
    if values.given("nnodes") or values["standalone"]:
        return {}, ()
    if here.nodes is None:
        if here.index is None or any(values.given(d) for d in ("rdzv_endpoint", "master_addr")):
            return {}, ()
        text = f"pod {here.index} of a job trains by itself: --nnodes, or ELAUNCH_POD_COUNT, makes one job of all"
        return {}, (text,)
    spares: int = values["spares"]
    if 0 < here.nodes <= spares:
        raise values.error("spares", f"expected fewer than {here.nodes}, the pods of this job")
    return {"nnodes": str(here.nodes - max(0, spares))}, ()


def _meeting(values: Values, here: Pod) -> dict[str, Any]:
    """How the pods find each other: by names that stay when a pod is replaced."""
    _, most = checked(values, "nnodes", parse_nodes)
    told: dict[str, Any] = {}
    if not values.given("rdzv_id") and here.id:
        told["rdzv_id"] = here.id
    if most == 1 or any(values.given(dest) for dest in _ELSEWHERE):
        return told
    everyone = max(most + values["spares"], here.nodes or 0)
    if values.given("master_addr"):
        port = values["master_port"] if values["master_port"] is not None else 29500
        endpoints = siblings(values["master_addr"], everyone, port) if values.given("node_rank") else ()
    else:
        endpoints = here.endpoints(everyone)
        told |= {} if values.given("rdzv_backend") else {"rdzv_backend": "c10d"}
        if told.get("rdzv_backend", values["rdzv_backend"]) == "static" and not values.given("node_rank"):
            told["node_rank"] = here.place(everyone)
    if not endpoints or told.get("rdzv_backend", values["rdzv_backend"]) == "etcd":
        return told
    told["rdzv_endpoint"] = ",".join(endpoints)
    told["rdzv_conf"] = _conf(values["rdzv_conf"], first=values["node_rank"] == 0 and here.place(everyone) <= 0)
    if not values.given("local_addr") and here.address:
        told["local_addr"] = here.address
    return told


def _conf(given: str, *, first: bool) -> str:
    """The first pod need not find its own name to know that the etcd is its: the cluster's DNS may not have it yet.

    The others wait for it as long as one that the scheduler has no place for is waited for in Kubernetes.
    """
    told = {"is_host": "true" if first else "false", "read_timeout": f"{_PATIENCE:g}"}
    more = [f"{key}={value}" for key, value in told.items() if key not in given]
    return ",".join([*([given] if given else []), *more])
