"""How loud each event of a job is shown, by whatever shows it. Values only."""

from __future__ import annotations

_ERRORS = (
    "job_failed",
    "bad_record",
    "host_failed",
    "checkpoint_restores_differ",
    "start_check",
    "interface_unreachable",
    "pair_unreachable",
    "rails_crossed",
)
_WARNINGS = (
    "job_aborting",
    "job_stopped",
    "node_silent",
    "node_gone",
    "straggler",
    "rank_left_early",
    "evidence_saved",
    "link_fault",
    "duplicate_route",
    "map_differs",
    "mtu_differs",
)


def level(code: str) -> str:
    """How loud an event is shown: ``info``, ``warning`` or ``error``."""
    if code in _ERRORS or (code.endswith("_failed") and not code.startswith("command_")):
        return "error"
    troubles = ("port_", "checkpoint_", "interface_", "command_refused", "command_failed")
    quiet = ("_over", "_up", "_recovered", "_committed", "_restored", "_reading", "_retention")
    if code in _WARNINGS or (code.startswith(troubles) and not code.endswith(quiet)):
        return "warning"
    return "info"
