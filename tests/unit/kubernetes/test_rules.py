"""Whose fault an exit code is."""

from __future__ import annotations

import pytest

from elaunch.kubernetes.rules import Action, Rule, of_job, of_pod, why


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (85, Action.IGNORE),
        (143, Action.IGNORE),
        (71, Action.ELSEWHERE),
        (95, Action.ELSEWHERE),
        (137, Action.ELSEWHERE),
        (69, Action.REPLACE),
        (1, Action.REPLACE),
    ],
)
def test_what_becomes_of_a_pod_while_its_job_goes_on(code: int, action: Action) -> None:
    assert of_pod(code, ()) is action


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (85, Action.IGNORE),
        (75, Action.REPLACE),
        (71, Action.ELSEWHERE),
        (1, Action.FAIL),
        (92, Action.FAIL),
        (93, Action.FAIL),
        (94, Action.FAIL),
        (137, Action.FAIL),
    ],
)
def test_what_becomes_of_a_job_that_its_leader_ended(code: int, action: Action) -> None:
    assert of_job(code, ()) is action


def test_the_first_rule_that_matches_decides_and_the_users_come_before_ours() -> None:
    rules = (Rule(Action.FAIL, (71,)), Rule(Action.REPLACE, (3, 4)), Rule(Action.IGNORE, (85, 143), inverted=True))
    assert of_pod(71, rules) is Action.FAIL
    assert of_pod(3, rules) is Action.REPLACE
    assert of_pod(9, rules) is Action.IGNORE
    assert of_pod(85, rules) is Action.IGNORE  # ours
    assert of_job(3, rules) is Action.REPLACE


def test_a_code_has_a_word() -> None:
    assert [why(code) for code in (2, 75, 93, 94, 71, 1, 139)] == [
        "BadInput",
        "TooFewNodes",
        "CrashLoop",
        "Aborted",
        "NodeFailed",
        "ProgramFailed",
        "ProgramFailed",
    ]
