"""What a node says of itself when it joins again under a new id."""

from __future__ import annotations

from elaunch.agent.status import StatusBoard
from elaunch.controller.node_status import NodeStatus, RunPhase, StackGroup


def test_a_node_that_joins_again_tells_nothing_of_the_generation_that_it_was_in() -> None:
    """Else the leader would note its evidence once more, and of no generation."""
    board = StatusBoard()
    board.join("a")
    board.update(generation=19, phase=RunPhase.STOPPED, evidence="no rank is left", stacks=(StackGroup((1,), "f"),))
    board.update(start_error="no port", start_code="no_route", start_exit_code=69, store_port=7)
    board.join("b")
    assert board.now == NodeStatus("b", store_port=7)
