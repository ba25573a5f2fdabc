"""Which counters of a port should stand still, and how much of each is too much.

A limit is what a counter may rise by within ``WINDOW`` seconds. Where one event is already the end of a connection or
beyond what a link may do by its specification it is 1; else it is a rate, since links that carry four levels per symbol
(HDR, NDR, 400 Gbit/s Ethernet) always have some errors, and correct them. docs/links.md says where each comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW: Final = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Limit:
    """``least``: what a counter rises by within the window when there is trouble. ``what`` names its events."""

    counter: str
    least: int
    what: str


ERRORS: Final = (
    Limit("local_link_integrity_errors", 1, "times more bit errors than the link may have"),
    Limit("excessive_buffer_overrun_errors", 1, "overruns of its input buffer"),
    Limit("rnr_nak_retry_err", 1, "connections broken off since the other end had no receive buffer"),
    Limit("req_transport_retries_exceeded", 1, "connections broken off after all retries"),
    Limit("link_error_recovery", 5, "recoveries of the link"),
    Limit("symbol_error", 600, "symbol errors"),
    Limit("port_rcv_errors", 600, "packets received with errors"),
    Limit("rx_crc_errors", 60, "frames received with a wrong checksum"),
    Limit("rx_errors", 600, "frames received with errors"),
    Limit("tx_errors", 600, "frames not sent for an error"),
)
CONGESTION: Final = (
    Limit("port_xmit_discards", 6_000, "packets discarded instead of sent"),
    Limit("packet_seq_err", 600, "packets lost on the way"),
    Limit("out_of_buffer", 6_000, "packets dropped for want of a receive buffer"),
    Limit("rx_drops", 6_000, "packets dropped on receiving"),
    Limit("rx_missed_errors", 6_000, "frames dropped for want of a receive buffer"),
    Limit("rp_cnp_handled", 60_000, "requests to send less"),
)

STALL: Final = "port_xmit_wait"
STALLED: Final = 0.5  # of the time in which the port had something to send, it could not
STALLED_BYTES: Final = 600_000_000  # sent within the window at least, for that to mean anything

DROPS: Final = 3  # within FLAP_WINDOW make a port flap
FLAP_WINDOW: Final = 600.0  # seconds
SETTLE: Final = 10.0  # seconds for which a port must be up or fast again, to count as such
