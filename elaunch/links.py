"""What is known of the ports that a node's ranks use: sampled by its agent, sent to the leader, related there.

Levels, not edges: each report tells the whole of what is wrong with its port, so that a message lost changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from elaunch.topology.machine import PortState

DOWN: Final = "port_down"
FLAPPING: Final = "port_flapping"
ERRORS: Final = "port_errors"
SLOW: Final = "port_slow"
CONGESTED: Final = "port_congested"

BROKEN: Final = (DOWN, FLAPPING, ERRORS, SLOW)
"""What another port would not suffer from, the worst first. Congestion is the fabric's, and no reason to move."""


@dataclass(frozen=True, slots=True)
class PortTrouble:
    """What is wrong with a port: ``text`` goes on after its name, with figures ("is down (Polling)")."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class PortReport:
    """One port as its agent sees it.

    ``local_ranks`` are those that use it, empty for one that is left out for now. ``rate`` in Gbit/s, None: not known.
    ``sent`` and ``received`` in bytes per second, None: not known. ``rose`` are counters with what they rose by since
    the sample before, only those that should stand still.
    """

    port: str
    local_ranks: tuple[int, ...] = ()
    state: PortState = PortState.UNKNOWN
    phys_state: str = ""
    rate: float | None = None
    sent: float | None = None
    received: float | None = None
    rose: Mapping[str, int] = field(default_factory=dict)
    troubles: tuple[PortTrouble, ...] = ()
