"""ElasticJobs and what a cluster has of them, for tests of the operator's decisions."""

from __future__ import annotations

from typing import Any

from elaunch.kubernetes.names import GROUP
from elaunch.kubernetes.observed import Pod, Seat, Truth
from elaunch.kubernetes.spec import JobSpec, read

UID = "0b5e9f6c-aaaa-bbbb-cccc-ddddeeeeffff"
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]}}


def resource(generation: int = 1, **spec: Any) -> dict[str, Any]:
    """An ElasticJob as the server has it."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "job", "namespace": "team", "uid": UID, "generation": generation},
        "spec": {"program": ["train.py"], "template": TEMPLATE, **spec},
    }


def job(generation: int = 1, **spec: Any) -> JobSpec:
    return read(resource(generation, **spec))


def pod(slot: int = 0, incarnation: int = 1, **values: Any) -> Pod:
    """A pod that runs and is ready, of the first run."""
    usual: dict[str, Any] = {
        "name": f"job-{slot}-{incarnation}",
        "uid": f"uid-{slot}-{incarnation}",
        "slot": slot,
        "incarnation": incarnation,
        "run": 1,
        "phase": "Running",
        "ready": True,
        "node": f"node{slot}",
        "address": f"10.0.{slot}.{incarnation}",
    }
    return Pod(**usual | values)


def seat(of: Pod) -> Seat:
    return Seat(f"agent-{of.name}", of.address, of.slot, of.node)


def truth(*pods: Pod, **values: Any) -> Truth:
    """A job that runs on ``pods``."""
    seats = tuple(seat(of) for of in pods)
    usual: dict[str, Any] = {
        "cluster": "c0ffee",
        "phase": "running",
        "generation": 1,
        "seats": seats,
        "members": tuple(s.node_id for s in seats),
        "ranks": len(seats),
        "low": len(seats),
        "high": len(seats),
    }
    return Truth(**usual | values)
