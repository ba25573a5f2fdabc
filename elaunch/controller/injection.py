"""Whom a fault is to hit that an operator asked for, and what is wrong with it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elaunch.controller.draining import named
from elaunch.controller.job import Job
from elaunch.inject.fault import Fault
from elaunch.inject.kinds import UNDO
from elaunch.rendezvous.journal import one_line


def wrong_fault(values: Any) -> str:
    """What is wrong with a fault as a command tells it; empty where nothing is."""
    if not isinstance(values, Mapping):
        return "no fault given"
    try:
        fault = Fault.of(values)
    except (TypeError, ValueError) as error:
        return str(error)
    if "job" not in fault.what.carriers:
        return f"{fault.kind} is brought about from outside of a job only (elaunch.lab)"
    if fault.what is UNDO:
        return "" if fault.rank >= 0 or fault.node else "undo: no rank and no node given"
    if fault.what.target == "rank" and fault.rank < 0:
        return f"{fault.kind}: no rank given"
    if fault.what.target != "rank" and not fault.node:
        return f"{fault.kind}: no node given"
    return ""


def wrong_announcement(values: Mapping[str, Any]) -> str:
    """The same of what is told of a fault that comes from outside."""
    if not isinstance(values.get("where"), str) or not isinstance(values.get("over"), bool):
        return "no host given, or not whether it is over"
    try:
        Fault.of(values["fault"])
    except (KeyError, TypeError, ValueError) as error:
        return str(error)
    return ""


def announced(values: Mapping[str, Any]) -> str:
    """As it stands in the history."""
    over = ": undone" if values["over"] else ""
    return f"{one_line(values['where'])[:80]}: {Fault.of(values['fault'])}{over}"


def aimed(job: Job, fault: Fault) -> tuple[tuple[str, ...], str]:
    """The node that is to bring a fault about; or who is not there, in words."""
    if fault.what.target == "rank" or (fault.what is UNDO and fault.rank >= 0):
        of_rank = tuple(m.node_id for m in job.members if m.rank0 <= fault.rank < m.rank0 + m.slots)
        return of_rank, "" if of_rank else f"generation {job.generation} has no rank {fault.rank}"
    members = {member.node_id for member in job.members}
    found = tuple(node.node_id for node in named(job, fault.node) if node.node_id in members)
    return found[:1], "" if found else f"no node or host {fault.node} runs ranks of this job"
