"""What only pages ask of a leader beside the status: the last hang, and all ports with their traffic."""

from __future__ import annotations

from elaunch.controller.hang_report import HangReport, spans
from elaunch.controller.links import Links
from elaunch.controller.sightings import RankView
from elaunch.controller.text import sendable
from elaunch.proto.elaunch.v1 import control_pb2 as pb

MOST_LEVELS = 4096  # ports of one answer


def pack_hang(report: HangReport | None) -> pb.HangReport | None:
    """The last hang; None where there was none in this leader's time."""
    if report is None:
        return None
    hang = report.hang
    return pb.HangReport(
        generation=report.generation,
        time=report.time,
        code=hang.code,
        text=sendable(hang.text),
        culprits=[_culprit(view) for view in report.culprits],
        waits=[
            pb.WaitLine(
                group=sendable(wait.group),
                what=sendable(wait.what),
                sequence=wait.sequence,
                since=wait.since,
                waiting=spans(view.rank for view in wait.inside),
                absent=spans(wait.absent),
            )
            for wait in report.waits
        ],
        evidence=[sendable(text) for text in report.evidence.values()],
        stacks=[
            pb.StackGroup(host=sendable(host), ranks=sorted(ranks), text=sendable(text))
            for text, (host, ranks) in report.stacks.items()
        ],
    )


def _culprit(view: RankView) -> pb.RankLine:
    told = view.progress
    return pb.RankLine(
        rank=told.rank,
        node_id=view.node_id,
        host=sendable(view.host),
        pid=told.pid,
        step=told.step,
        state=told.state,
        where=sendable(told.where),
        section=sendable(told.section),
        progress_seconds=told.progress_age,
    )


def port_levels(links: Links) -> list[pb.PortLevel]:
    """The ports as their nodes last told of them."""
    return [
        pb.PortLevel(
            host=sendable(node.host),
            node_id=node.node_id,
            port=sendable(report.port),
            ranks=node.ranks(report),
            state=report.state.value,
            phys_state=sendable(report.phys_state),
            rate=report.rate,
            sent=report.sent,
            received=report.received,
            rose={sendable(name): count for name, count in report.rose.items()},
        )
        for node, report in links.reports(MOST_LEVELS)
    ]
