"""What elaunch must tell of each fault: the code, whom it names, and within which time. A table; values only.

The bounds hold for faults that last longer than they are, on a machine that is not overloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elaunch.inject.fault import Fault
from elaunch.inject.kinds import KINDS

Culprit = Literal["rank", "host", "port", "nobody"]
Course = Literal["next", "same", "either"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What bounds depend on, in seconds: ``--hang-timeout``, ``lease_ttl``, ``--lease-ttl`` of controllers."""

    hang: float = 60.0
    lease: float = 15.0
    controller: float = 5.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of a fault.

    ``codes`` are those of the reason why the next generation began (``Watched.look().plan.reason.code``), or of events,
    one of which must be told; none: nothing needs to be. ``culprit`` is what the sentence names. ``generation``:
    ``next``: the ranks are stopped, and another one follows; ``same``: no rank is disturbed. The bound is ``fixed``
    seconds and so many times each of the settings, from the begin of the fault to the telling.
    """

    codes: tuple[str, ...]
    culprit: Culprit
    generation: Course
    fixed: float = 5.0
    hang: float = 0.0
    lease: float = 0.0
    controller: float = 0.0

    def within(self, settings: Settings = Settings()) -> float:
        """The bound in seconds."""
        parts = self.hang * settings.hang, self.lease * settings.lease, self.controller * settings.controller
        return self.fixed + sum(parts)


_KILLED = Expected(("rank_failed",), "rank", "next", fixed=2.0)
_DIES = Expected(("rank_failed",), "rank", "next")  # an interpreter with torch takes seconds to end
_HANGS = Expected(("hung", "section_overrun", "start_timeout"), "rank", "next", hang=1.5)
_SLOW = Expected(("straggler",), "rank", "same", fixed=60.0)
_CUT = Expected(("node_lost", "rank_failed"), "host", "next", fixed=3.0, lease=1.2)
_PORT = Expected(("port_down",), "port", "same", fixed=4.0)
_LED = Expected(("leading",), "nobody", "same", fixed=2.0, controller=2.0)
_BORNE = Expected((), "nobody", "same", fixed=15.0)
_STANDS = ("hung", "all_waiting", "section_overrun", "start_timeout", "rank_failed", "node_lost", "straggler")
_WEAK = Expected(_STANDS, "host", "either", hang=1.25)

EXPECTED: dict[str, Expected] = {
    "kill": _KILLED,
    "exit": _DIES,
    "raise": _DIES,
    "device-reset": _DIES,
    "memory": _DIES,
    "stop": Expected(("frozen",), "rank", "next", fixed=10.0),
    "sleep": _HANGS,
    "lock": Expected(("interpreter_stuck", "hung"), "rank", "next", hang=1.5),
    "mismatch": Expected(("collective_mismatch", "hung", "rank_failed"), "rank", "next", hang=1.5),
    "slow-cpu": _SLOW,
    "slow-step": _SLOW,
    "agent-kill": Expected(("node_lost",), "host", "next"),
    "agent-freeze": Expected(("node_lost",), "host", "next", fixed=3.0, lease=1.2),
    "link-down": _PORT,
    "link-flap": _PORT,
    "controller-kill": _LED,
    "controller-freeze": _LED,
    "controller-cut": _LED,
    "etcd-kill": _BORNE,
    "etcd-freeze": _BORNE,
    "etcd-disk-full": _BORNE,
    "etcd-clock-jump": _BORNE,
    "loss": _WEAK,
    "delay": _WEAK,
    "reorder": _WEAK,
    "rate": _WEAK,
    "reset": Expected(("rank_failed",), "host", "either"),
    "one-way": _CUT,
    "partition": _CUT,
    "interface-down": _WEAK,
    "address-gone": _WEAK,
    "mtu": _WEAK,
}


def expected(fault: Fault, settings: Settings = Settings()) -> Expected:
    """What must come of this one: what ends before it can be told may go unnoticed, and then disturbs nobody."""
    usual = EXPECTED[fault.kind]
    if fault.what.lasts and 0 < fault.seconds < usual.within(settings):
        return Expected(usual.codes, usual.culprit, "either", usual.fixed, usual.hang, usual.lease, usual.controller)
    return usual


assert EXPECTED.keys() == KINDS.keys()
