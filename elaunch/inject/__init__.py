"""Faults on purpose: what can be made to fail, where, for how long, and what elaunch must tell of it (docs/inject.md).

Values only, but for what acts inside of a rank (``points``, ``watching``, ``acts``) and beside one (``holding``).
Whatever needs a network, an etcd or a controller of its own is in ``elaunch.lab``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.inject.expecting import EXPECTED, Expected, Settings, expected
    from elaunch.inject.fault import Fault
    from elaunch.inject.kinds import KINDS, POINTS, Kind
    from elaunch.inject.points import reached
    from elaunch.inject.scheduling import Planned, schedule

_WHERE = {
    "EXPECTED": "expecting",
    "Expected": "expecting",
    "Settings": "expecting",
    "Fault": "fault",
    "KINDS": "kinds",
    "Kind": "kinds",
    "POINTS": "kinds",
    "reached": "points",
    "expected": "expecting",
    "Planned": "scheduling",
    "schedule": "scheduling",
}
__all__ = [
    "EXPECTED",
    "KINDS",
    "POINTS",
    "Expected",
    "Fault",
    "Kind",
    "Planned",
    "Settings",
    "expected",
    "reached",
    "schedule",
]


def __getattr__(name: str) -> object:
    """Load what is asked for: a rank needs next to nothing of this."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
