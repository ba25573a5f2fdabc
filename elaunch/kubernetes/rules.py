"""What an exit code means: whose fault it was, and so what is to become of the pod, or of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from elaunch.controller.operations import EXIT_ABORTED
from elaunch.controller.preemption import EXIT_WORK_REMAINS
from elaunch.errors import (
    EndpointUnreachableError,
    EtcdLostError,
    JoinTimeoutError,
    NoRouteError,
    StartError,
)


class Action(str, Enum):
    """``IGNORE`` replaces the pod and counts nothing, the others but ``FAIL`` count as a replacement."""

    FAIL = "FailJob"
    REPLACE = "Replace"
    ELSEWHERE = "ReplaceElsewhere"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Rule:
    """The first rule whose codes match decides, the user's before ours. With ``inverted`` all other codes match."""

    action: Action
    codes: tuple[int, ...]
    inverted: bool = False

    def matches(self, code: int) -> bool:
        return (code in self.codes) is not self.inverted


USAGE = EndpointUnreachableError.exit_code
PREEMPTED = (EXIT_WORK_REMAINS, 143)
NODES_FAULT = (StartError.exit_code, NoRouteError.exit_code, 128, 135, 137)  # 128: the container did not start
TRANSIENT = (EtcdLostError.exit_code, JoinTimeoutError.exit_code)

DISRUPTIONS = frozenset({"Evicted", "Preempting", "Shutdown", "NodeShutdown", "Terminated", "NodeLost", "NodeAffinity"})
"""Reasons of a failed pod that are Kubernetes' own doing, and no fault of anybody."""

_POD = (
    Rule(Action.IGNORE, PREEMPTED),
    Rule(Action.ELSEWHERE, NODES_FAULT),
)
_JOB = (
    Rule(Action.IGNORE, PREEMPTED),
    Rule(Action.REPLACE, TRANSIENT),
    Rule(Action.ELSEWHERE, (StartError.exit_code, NoRouteError.exit_code)),
)


def of_pod(code: int, rules: Sequence[Rule]) -> Action:
    """What becomes of a pod that ended with ``code`` while its job goes on."""
    return _first(code, (*rules, *_POD), Action.REPLACE)


def of_job(code: int, rules: Sequence[Rule]) -> Action:
    """What becomes of a job whose leader ended it with ``code``; all but ``FAIL`` starts it again."""
    return _first(code, (*rules, *_JOB), Action.FAIL)


def _first(code: int, rules: Sequence[Rule], otherwise: Action) -> Action:
    return next((rule.action for rule in rules if rule.matches(code)), otherwise)


def why(code: int) -> str:
    """One word for the ``reason`` of a condition."""
    known = {
        USAGE: "BadInput",
        65: "BadRecord",
        69: "EtcdLost",
        75: "TooFewNodes",
        77: "AccessRefused",
        85: "WorkRemains",
        91: "WorldChanged",
        92: "Hung",
        93: "CrashLoop",
        EXIT_ABORTED: "Aborted",
        96: "StartCheckFailed",
        97: "DirectoryInUse",
        **dict.fromkeys((71, 95, 128), "NodeFailed"),
    }
    return known.get(code, "ProgramFailed")
