"""What a leader does by, as it stands in the job's spec: for a leader that has no command line of the job."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from elaunch.controller.policy import Policy
from elaunch.rendezvous.records import Spec

_OWN = ("min_nodes", "max_nodes", "max_restarts")  # members of the spec itself, equal on all nodes
_INFINITE = "off"


def policy_values(policy: Policy) -> dict[str, Any]:
    """What of ``policy`` the first node of a job writes into the spec beside what must be equal.

    JSON has no infinity: it is written as a word.
    """
    values = {f.name: getattr(policy, f.name) for f in fields(Policy) if f.name not in _OWN}
    return {name: _INFINITE if value == math.inf else value for name, value in values.items()}


def policy_of(spec: Spec) -> Policy:
    """The policy that the job's first node was started with.

    What the spec does not hold, or holds in a form that this release does not know, has its default.
    """
    values: dict[str, Any] = {}
    for known in fields(Policy):
        if known.name in spec.policy and known.name not in _OWN:
            value = spec.policy[known.name]
            value = math.inf if value == _INFINITE else value
            if _fits(value, known.default):
                values[known.name] = value
    return Policy(spec.min_nodes, spec.max_nodes, spec.max_restarts, **values)


def _fits(value: Any, default: Any) -> bool:
    """Whether ``value`` is of the kind of ``default``; JSON does not tell 30 from 30.0, and None stands for unset."""
    if isinstance(default, (bool, str)):
        return type(value) is type(default)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number or (default is None and value is None)
