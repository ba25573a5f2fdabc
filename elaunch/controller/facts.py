"""What is told of a job, by etcd and by its leader, as values for JSON: what all documents of it have in common."""

from __future__ import annotations

import dataclasses
from typing import Any

from elaunch.controller.survey import Overview
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.state import UNTOLD


def stands(seen: Overview) -> dict[str, Any]:
    """How the job stands in etcd. ``ranks`` are those of its newest plan, 0 once it is over."""
    state, spec = seen.state, seen.spec
    restarts, most = state.restart_count if state else 0, spec.max_restarts if spec else None
    low, high = seen.limits
    return {
        "job": seen.job,
        "phase": seen.phase,
        "generation": state.generation if state else 0,
        "restart_count": restarts,
        "max_restarts": most,
        "budget_left": None if most is None else max(0, most - restarts),
        "min_nodes": low,
        "max_nodes": high,
        "ranks": seen.plan.world_size if seen.plan and not seen.over else 0,
        "reason": dataclasses.asdict(state.reason) if state else None,
        "exit_code": state.exit_code if state and state.phase.final else None,
        "restored_step": state.restored if state and state.restored != UNTOLD else None,
        "suspect_steps": list(state.history.suspects) if state else [],
    }


def now(reply: pb.StatusReply) -> dict[str, Any]:
    """How it stands by its leader, which knows it before etcd does."""
    return {
        "phase": reply.phase,
        "generation": reply.generation,
        "restart_count": reply.restart_count,
        "reason": {"code": reply.code, "text": reply.reason},
        "waiting_for": reply.waiting_for or None,
        "phase_seconds": round(reply.phase_seconds, 3),
        "budget_left": reply.budget_left,
    }


def leader(seen: Overview) -> dict[str, Any] | None:
    """Who leads it; ``host`` is None where that is no node of it."""
    found = seen.leader
    if found is None:
        return None
    return {
        "node_id": found.node_id,
        "host": next((node.host for node in seen.nodes if node.node_id == found.node_id), None),
        "address": found.address,
        "epoch": seen.epoch,
        "web": found.web or None,
    }


def unheard(live: pb.StatusReply | str, seen: Overview) -> str | None:
    """Why its leader says nothing, where it should."""
    return live if isinstance(live, str) and not seen.over else None


def step(number: int) -> int | None:
    """A step as leaders tell it: negative for none."""
    return number if number >= 0 else None


def age(seconds: float) -> float | None:
    """Seconds since something was heard: negative where nothing was."""
    return round(seconds, 3) if seconds >= 0 else None
