"""Short ways to ranks as the leader sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elaunch.controller.sightings import RankView
from elaunch.progress import GroupProgress, RankProgress

ALL_REDUCE = "all_reduce float32[1024]"


def group(started: int, finished: int, *, size: int = 8, name: str = "default", **more: Any) -> GroupProgress:
    return GroupProgress(name, size, started, finished, **{"collective": ALL_REDUCE if started else "", **more})


def view(rank: int, *groups: GroupProgress, idle: float = 0.0, **more: Any) -> RankView:
    """A rank that made its last progress ``idle`` seconds ago and has been at the same line since."""
    outer = {name: more.pop(name) for name in ("state_age", "cpu_share") if name in more}
    progress = RankProgress(rank, rank % 8, 4000 + rank, state="S", attached=True, groups=groups)
    progress = replace(progress, progress_age=idle, where_age=idle, where=f"train.py:{30 + rank} in step")
    return RankView(replace(progress, **more), f"gpu-{rank:02}", f"n{rank}", **outer)


def inside(rank: int, sequence: int, idle: float, *, size: int = 8, **more: Any) -> RankView:
    """A rank that waits in collective ``sequence`` of the default group for ``idle`` seconds."""
    return view(rank, group(sequence, sequence - 1, size=size, **more), idle=idle)


def outside(rank: int, last: int, idle: float, *, size: int = 8, **more: Any) -> RankView:
    """A rank that has left collective ``last`` of the default group, and entered none since."""
    return view(rank, group(last, last, size=size), idle=idle, **more)
