"""Inside of Slurm an option that was not given has Slurm's value, where Slurm has one: what is given wins."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elaunch.agent.options import Scheduled
from elaunch.cli.parser import Values
from elaunch.cli.settings import parse_signals
from elaunch.errors import UsageError
from elaunch.schedulers.slurm import Allocation, allocation

GRACE = 25.0  # seconds from SIGTERM to SIGKILL: Slurm itself kills after KillWait, which is 30 unless configured
_MEETING = ("standalone", "rdzv_endpoint", "master_addr", "master_port", "node_rank", "nnodes")
_ELSEWHERE = ("rdzv_endpoint", "master_addr", "master_port")  # nodes of other steps and jobs may come there
_WAYS = "or --nnodes and --rdzv-endpoint for what you start by other means, or --standalone"


def within_slurm(values: Values, environ: Mapping[str, str]) -> tuple[Values, Allocation | None, Scheduled | None]:
    """``values`` with Slurm's in the place of defaults, and what else it says; as they are, and None, outside of it.

    Raises UsageError where it was not started as one agent on each node, and no option says how it was meant.
    """
    try:
        here = allocation(environ)
    except ValueError as error:
        raise UsageError(f"{error}; unset SLURM_JOB_ID to do without Slurm") from None
    if here is None:
        return values, None, None
    if not any(values.given(dest) for dest in _MEETING):
        _check(here)
    warning = _warning_signal(values)
    told = _meeting(values, here)
    if not values.given("nproc_per_node") and here.gpus:
        told["nproc_per_node"] = str(here.gpus)
    if not any(values.given(d) for d in ("grace_period", "shutdown_timeout")):
        told |= {} if environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") else {"grace_period": GRACE}
    whole = not any(values.given(dest) for dest in _ELSEWHERE)
    scheduled = Scheduled(
        scheduler="Slurm",
        floor=here.floor,
        incarnation=here.incarnation,
        place=here.node if whole and here.step is not None else -1,
        whole=whole,
        notice_signal=warning,
        ends_at=here.ends_at,
        drain=values["slurm_drain"],
        nodes=here.nodes,
        scheduler_job=str(here.job),
        port=here.port if here.step is not None and whole else 0,
        starts=here.restarts,
    )
    return replace(values, values={**values.values, **told}), here, scheduled


def _check(here: Allocation) -> None:
    if here.step is None and len(here.nodes) > 1:
        raise UsageError(
            f"this is one process in an allocation of {len(here.nodes)} nodes: start one on each, "
            f"srun --ntasks-per-node=1 elaunch ...; {_WAYS}"
        )
    if (most := max(here.tasks_on, default=1)) > 1 and here.step is not None:
        raise UsageError(
            f"srun started {most} tasks on {here.nodes[here.tasks_on.index(most)]}, and elaunch is one on each node, "
            f"which starts the ranks: srun --ntasks-per-node=1 elaunch --nproc-per-node={most} ...; {_WAYS}"
        )
    if here.step is not None and here.tasks < len(here.nodes):
        raise UsageError(
            f"srun started {here.tasks} tasks for a step on {len(here.nodes)} nodes, and elaunch is one on each: "
            f"srun --nodes={len(here.nodes)} --ntasks-per-node=1 elaunch ...; {_WAYS}"
        )


def _meeting(values: Values, here: Allocation) -> dict[str, Any]:
    """How the nodes find each other."""
    told: dict[str, Any] = {}
    if not values.given("rdzv_id"):
        told["rdzv_id"] = here.name
    if here.step is None or values.given("standalone"):
        return told
    if not values.given("nnodes"):
        told["nnodes"] = str(_wanted(values, here))
    alone = told.get("nnodes", values["nnodes"]) in ("1", "1:1") and not values.given("rdzv_backend")
    if alone or any(values.given(dest) for dest in _ELSEWHERE):
        return told
    if not values.given("rdzv_backend"):
        told["rdzv_backend"] = "c10d"
    backend = told.get("rdzv_backend", values["rdzv_backend"])
    if backend == "static" and not values.given("node_rank"):
        told["node_rank"] = here.node
    if backend != "etcd":
        told["rdzv_endpoint"] = ",".join(here.endpoints if backend == "c10d" else here.endpoints[:1])
    return told


def _wanted(values: Values, here: Allocation) -> int:
    """All nodes of the step, but for those that are to wait for one to fail."""
    spares: int = values["spares"]
    if 0 < len(here.nodes) <= spares:
        raise values.error("spares", f"expected fewer than {len(here.nodes)}, the nodes of this step")
    return len(here.nodes) - max(0, spares)


def _warning_signal(values: Values) -> signal.Signals | None:
    text: str = values["warning_signal"]
    if text.lower() == "none":
        return None
    try:
        found = parse_signals(text)
    except ValueError as error:
        raise values.error("warning_signal", str(error)) from None
    if len(found) > 1:
        raise values.error("warning_signal", "expected one signal, or none")
    return found[0]
