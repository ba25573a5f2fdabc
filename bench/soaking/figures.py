"""Goodput, and how long recoveries took, from the steps that were done. Values only."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .lines import Line

PAUSE = 1.0  # seconds without a new step, from which on it is a recovery
NOBODY = "no fault"
SEVERAL = "several"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from the last step before a pause to the first one that had not been done before it."""

    kind: str
    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """Seconds. ``useful``: steps that count, times the usual length of a step; ``slow``: what else they took."""

    total: float
    useful: float
    slow: float
    lost: dict[str, float]
    step: float

    @property
    def ratio(self) -> float:
        return self.useful / self.total if self.total else 0.0


def rises(steps: Sequence[Line]) -> list[float]:
    """The times at which a step was done that nobody had done before."""
    found, highest = [], 0
    for line in sorted(steps, key=lambda line: line.t):
        if line.step > highest:
            highest = line.step
            found.append(line.t)
    return found


def recoveries(times: Sequence[float], faults: Sequence[tuple[float, str]]) -> list[Recovery]:
    """Each pause, by the last fault that had begun before it, or in its first half second.

    It is of ``SEVERAL`` where others began before it was over. A host that comes back makes a second pause of a fault.
    """
    found = []
    for before, after in pairwise(times):
        if after - before >= PAUSE:
            earlier = [kind for at, kind in faults if at <= before + 0.5]
            during = [kind for at, kind in faults if before + 0.5 < at <= after]
            kinds = [*earlier[-1:], *during]
            kind = SEVERAL if len(kinds) > 1 and during else (kinds or [NOBODY])[0]
            found.append(Recovery(kind, before, after - before))
    return found


def goodput(times: Sequence[float], counted: int, found: Sequence[Recovery], began: float, ended: float) -> Goodput:
    """From ``began``, the begin of the first step, to ``ended``; ``counted`` steps count."""
    lengths = [after - before for before, after in pairwise(times) if after - before < PAUSE]
    step = statistics.median(lengths) if lengths else 0.0
    lost: dict[str, float] = {}
    for one in found:
        lost[one.kind] = lost.get(one.kind, 0.0) + one.seconds
    total = ended - began
    useful = min(counted * step, total)
    return Goodput(total, useful, max(0.0, total - useful - sum(lost.values())), lost, step)


def spread(values: Sequence[float]) -> dict[str, float]:
    """n, min, median, p90, max; n alone where there are none."""
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return {
        "n": len(ordered),
        "min": ordered[0],
        "median": statistics.median(ordered),
        "p90": p90,
        "max": ordered[-1],
    }
