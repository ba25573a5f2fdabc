"""What a leader goes by: the limits, times and choices that a job was started with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """What the job's spec and rendezvous configuration ask for. All times in seconds.

    ``settle`` is how long a wish to grow waits for more nodes to arrive; it doubles with each growth that follows
    within ``calm`` of the one before, so that a bouncing node cannot keep a job from working. ``on_failure`` is
    restart or stop; ``restart_window`` 0 where every restart counts for good; ``hang_timeout`` None where it is
    learnt, infinite where there is none. ``fixed_world`` is for programs that need the world that they began with.
    ``suspect_after`` is the number of failures in a row after which the checkpoint before them is suspect (0: never).
    ``probe``: auto, where nodes have several interfaces, or off.
    ``on_link_fault`` is report, redistribute or restart.
    A start of the job numbers its generations above ``floor``, and is of ``incarnation``, where a scheduler says so.
    ``allow_injection``: operators may have faults brought about.
    """

    min_nodes: int
    max_nodes: int
    max_restarts: int
    join_timeout: float = 600.0
    last_call_timeout: float = 30.0
    settle: float = 0.5
    calm: float = 60.0
    reattach: float = 3.0
    on_failure: str = "restart"
    restart_window: float = 0.0
    hang_timeout: float | None = None
    hang_floor: float = 60.0
    straggler_factor: float = 2.0
    fixed_world: bool = False
    spares: int = 0
    crash_loop: int = 5
    quarantine_faults: int = 3
    quarantine_seconds: float = 3600.0
    suspect_after: int = 3
    probe: str = "auto"
    on_link_fault: str = "report"
    floor: int = 0
    incarnation: str = ""
    allow_injection: bool = False
