"""A random course of faults from a seed: the same seed, the same course, on any machine. Values only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.inject.fault import Fault
from elaunch.inject.kinds import KINDS, POINTS

MOST = 100_000  # faults of a course
SHORTEST, LONGEST = 1.0, 8.0  # seconds that what lasts takes
_OF_CHECKPOINTS = ("write", "commit", "restore", "save")  # that only a program with checkpoints reaches
USUAL_POINTS = tuple(point for point in POINTS if point not in _OF_CHECKPOINTS)


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault, ``at`` so many seconds from the begin. ``host`` is the number of a lab's host, for what is no rank's."""

    at: float
    fault: Fault
    host: int = 0


def schedule(
    seed: int,
    seconds: float,
    *,
    every: float = 20.0,
    world: int = 1,
    hosts: int = 1,
    kinds: Sequence[str] = tuple(KINDS),
    points: Sequence[str] = USUAL_POINTS,
) -> tuple[Planned, ...]:
    """Faults for ``seconds``, one about ``every`` so many seconds: half as much earlier or later.

    ``world`` is the number of ranks, ``hosts`` of hosts from 1, ``kinds`` those to choose from, ``points`` the points
    of the program. Raises ValueError for an unknown kind, what is not above 0, or more than ``MOST`` faults.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"no fault {unknown[0]!r}: expected one of {', '.join(KINDS)}")
    if not (every > 0 and seconds > 0 and world > 0 and hosts > 0 and kinds):
        raise ValueError("expected every, seconds, world and hosts above 0, and at least one kind")
    if not (math.isfinite(every) and seconds / every <= MOST):
        raise ValueError(f"{seconds:g} s with a fault every {every:g} s are too many: expected {MOST} faults at most")
    draw = random.Random(f"elaunch.inject {seed}")
    found: list[Planned] = []
    slots = int(seconds // every)
    for slot in range(slots):
        at = every * (slot + 0.25 + draw.random() / 2)
        found.append(_drawn(draw, at, world, hosts, kinds, points))
    return tuple(found)


def _drawn(
    draw: random.Random, at: float, world: int, hosts: int, kinds: Sequence[str], points: Sequence[str]
) -> Planned:
    # Every figure is drawn, needed or not, so that another list of points changes nothing of the rest.
    kind = KINDS[kinds[draw.randrange(len(kinds))]]
    rank, host, chance = draw.randrange(world), 1 + draw.randrange(hosts), draw.random()
    length = round(SHORTEST + draw.random() * (LONGEST - SHORTEST), 3)
    point, share = draw.random(), round(0.1 + draw.random() * 0.4, 3)
    values: dict[str, object] = {"kind": kind.name}
    if kind.target == "rank":
        values["rank"] = rank
    if kind.inside and points and (not kind.now or chance < 0.5):
        values["at"] = points[int(point * len(points))]
    if kind.lasts:
        values["seconds"] = length
    if "share" in kind.takes:
        values["share"] = share
    return Planned(round(at, 3), Fault.of(values), host if kind.target != "rank" else 0)
