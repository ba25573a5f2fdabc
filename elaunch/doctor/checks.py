"""All checks of a host, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elaunch.doctor import limits, networks
from elaunch.doctor.facts import Complaint, Host

Check = Callable[[Host], Iterable[Complaint]]

CHECKS: tuple[Check, ...] = (
    networks.name,
    networks.interfaces,
    networks.mtus,
    networks.subnets,
    networks.ports,
    limits.shared_memory,
    limits.open_files,
    limits.locked_memory,
    limits.cpus,
    limits.clock,
    limits.driver,
)
SEVERITIES = ("error", "warning", "info")


def examine(host: Host) -> tuple[Complaint, ...]:
    """What is wrong, the worst first; the same thing said twice is said once."""
    found = dict.fromkeys(complaint for check in CHECKS for complaint in check(host))
    return tuple(sorted(found, key=lambda complaint: SEVERITIES.index(complaint.severity)))
