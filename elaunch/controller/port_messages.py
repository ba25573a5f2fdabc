"""Reports on ports as protobuf and back."""

from __future__ import annotations

import math

from elaunch.controller.text import sendable
from elaunch.links import PortReport, PortTrouble
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.topology.machine import PortState

_HIGHEST = (1 << 63) - 1  # of an int64


def pack_port(report: PortReport) -> pb.PortReport:
    """What of an active port is usual is not sent."""
    active = report.state is PortState.ACTIVE
    return pb.PortReport(
        port=sendable(report.port),
        local_ranks=report.local_ranks,
        state="" if active else report.state.value,
        phys_state="" if active else sendable(report.phys_state),
        rate=report.rate,
        sent=report.sent,
        received=report.received,
        rose={name: min(rise, _HIGHEST) for name, rise in report.rose.items()},
        troubles=[pb.PortTrouble(code=t.code, text=sendable(t.text)) for t in report.troubles],
    )


def unpack_port(message: pb.PortReport) -> PortReport:
    """Raises ValueError on a state that this release does not know. Figures that cannot be are as good as none."""
    return PortReport(
        port=message.port,
        local_ranks=tuple(message.local_ranks),
        state=PortState(message.state) if message.state else PortState.ACTIVE,
        phys_state=message.phys_state,
        rate=_figure(message.rate) if message.HasField("rate") else None,
        sent=_figure(message.sent) if message.HasField("sent") else None,
        received=_figure(message.received) if message.HasField("received") else None,
        rose={name: rise for name, rise in message.rose.items() if rise >= 0},
        troubles=tuple(PortTrouble(trouble.code, trouble.text) for trouble in message.troubles),
    )


def _figure(value: float) -> float | None:
    return value if 0 <= value < math.inf else None
