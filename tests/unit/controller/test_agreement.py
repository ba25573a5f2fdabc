"""A job's policy in its spec: written by an agent, read by a controller that has none of the job's options."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from elaunch.controller.agreement import policy_of, policy_values
from elaunch.controller.policy import Policy
from elaunch.rendezvous.records import Spec, decode, encode


def through_etcd(policy: Policy) -> Policy:
    spec = Spec(policy.min_nodes, policy.max_nodes, policy.max_restarts, {"default": {}}, policy=policy_values(policy))
    return policy_of(decode(Spec, encode(spec)))


@pytest.mark.parametrize("hang_timeout", [None, math.inf, 12.5, 3])
def test_a_policy_comes_through_etcd_as_it_was(hang_timeout: float | None) -> None:
    policy = Policy(
        1, 4, 2, 5.0, 7.0, on_failure="stop", restart_window=60.0, hang_timeout=hang_timeout, fixed_world=True, spares=2
    )  # fmt: skip
    assert through_etcd(policy) == policy


def test_what_stands_in_etcd_is_json_for_everyone() -> None:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    spec = Spec(1, 1, 0, {}, policy=policy_values(Policy(1, 1, 0, hang_timeout=math.inf)))
    json.loads(encode(spec), parse_constant=refuse)


def test_a_spec_of_an_older_release_has_the_defaults() -> None:
    old = b'{"min_nodes":2,"max_nodes":3,"max_restarts":4,"roles":{"default":{"nproc":1,"program":"a.py"}}}'
    assert policy_of(decode(Spec, old)) == Policy(2, 3, 4)


@pytest.mark.parametrize(
    "strange",
    [
        {"of_a_newer_release": 1},
        {"join_timeout": "soon"},
        {"join_timeout": None},
        {"fixed_world": 1},
        {"on_failure": 3},
        {"spares": True},
        {"max_nodes": 7},
    ],
)
def test_what_is_not_understood_has_its_default(strange: dict[str, Any]) -> None:
    assert policy_of(Spec(1, 2, 3, {}, policy=strange)) == Policy(1, 2, 3)
