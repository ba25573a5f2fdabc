"""A job as etcd has it: one answer for the command line and the page."""

from __future__ import annotations

import pytest

from elaunch.controller.survey import Overview
from elaunch.rendezvous.records import Node, Phase, Reason, Spec
from elaunch.rendezvous.state import State

SPEC = Spec(2, 4, 3, {"default": {}})


def state(phase: Phase, low: int, high: int) -> State:
    return State(phase, 3, 1, Reason("scaled", "an operator's"), min_nodes=low, max_nodes=high)


@pytest.mark.parametrize(
    ("of", "spec", "limits"),
    [
        (None, None, (None, None)),
        (None, SPEC, (2, 4)),
        (state(Phase.RUNNING, 0, 0), SPEC, (2, 4)),
        (state(Phase.WAITING, 1, 8), SPEC, (1, 8)),
        (state(Phase.FAILED, 1, 8), SPEC, (2, 4)),
    ],
)
def test_the_number_of_nodes_is_an_operators_while_the_job_lives(
    of: State | None, spec: Spec | None, limits: tuple[int | None, int | None]
) -> None:
    lives = of is not None and not of.phase.final
    node = Node("n0", "gpu-00", "127.0.0.1", 1, 1, "127.0.0.1:1")
    found = Overview("job", of, spec, None, None, 0, (node,) if lives else (), ())
    assert found.limits == limits
