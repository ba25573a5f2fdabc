"""What is kept of a hang stays bounded, however often nodes say the same."""

from __future__ import annotations

from elaunch.controller.blame import Hang
from elaunch.controller.hang_report import MOST_EVIDENCE, HangReport
from elaunch.controller.node_status import NodeStatus, RunPhase, StackGroup


def test_a_node_that_says_the_same_again_is_heard_once_however_many_there_are() -> None:
    report = HangReport(3, 0.0, Hang("hang", "rank 7 hangs"))
    nodes = MOST_EVIDENCE + 8
    for _ in range(3):
        for number in range(nodes):
            stacks = (StackGroup((number,), "train.py:31"),)
            status = NodeStatus(f"n{number}", 3, RunPhase.STOPPED, evidence="/logs/evidence", stacks=stacks)
            report.hear(status, f"gpu-{number}")
    assert len(report.evidence) == MOST_EVIDENCE
    assert report.stacks["train.py:31"] == ("gpu-0", list(range(nodes)))
