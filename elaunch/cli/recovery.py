"""What is to happen when ranks fail, hang or lag, as the command line says it."""

from __future__ import annotations

import math

from elaunch.agent.options import Recovery
from elaunch.cli.parser import Values
from elaunch.errors import UsageError


def recovery(values: Values, nodes: tuple[int, int]) -> Recovery:
    """Raises UsageError. ``nodes`` are the least and the greatest number of nodes."""
    fixed_world = bool(values["fixed_world"])
    if fixed_world and nodes[0] != nodes[1]:
        raise UsageError(f"--fixed-world with --nnodes={nodes[0]}:{nodes[1]}: expected one number, not a range")
    return Recovery(
        on_failure=values["on_failure"],
        restart_window=_positive(values, "restart_window", zero=True),
        hang_timeout=_hang_timeout(values),
        hang_floor=_positive(values, "hang_floor", zero=False),
        straggler_factor=_factor(values),
        fixed_world=fixed_world,
        spares=_count(values, "spares"),
        crash_loop=_count(values, "crash_loop"),
        suspect_after=_count(values, "suspect_after"),
        quarantine_faults=_count(values, "quarantine_faults"),
        on_link_fault=values["on_link_fault"],
    )


def _hang_timeout(values: Values) -> float | None:
    """None: to be learnt; infinite: a hang is never called one."""
    text: str = values["hang_timeout"]
    if text in ("auto", "off"):
        return None if text == "auto" else math.inf
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise values.error("hang_timeout", "expected seconds, auto or off")
    return seconds


def _positive(values: Values, dest: str, *, zero: bool) -> float:
    seconds: float = values[dest]
    if not (seconds >= 0 if zero else seconds > 0) or seconds == math.inf:
        raise values.error(dest, f"expected seconds, {'0 or more' if zero else 'more than 0'}")
    return seconds


def _factor(values: Values) -> float:
    factor: float = values["straggler_factor"]
    if not 1 < factor < math.inf:
        raise values.error("straggler_factor", "expected a number above 1")
    return factor


def _count(values: Values, dest: str) -> int:
    count: int = values[dest]
    if count < 0:
        raise values.error(dest, "expected 0 or more")
    return count
