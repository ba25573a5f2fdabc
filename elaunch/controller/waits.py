"""Which ranks wait in which collective, and who has not come.

A collective ends when all of its group have entered it. So whoever waits, waits for those members whose sequence
number is lower; that is how torch's flight recorder is read as well (PyTorch, "Flight Recorder for Debugging Stuck
Jobs": the rank whose last started sequence number is behind is the one to look at).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elaunch.controller.sightings import RankView
from elaunch.progress import INIT, MESH, NEW, GroupProgress

Key = tuple[str, tuple[int, ...]]
Seen = tuple[RankView, GroupProgress]


@dataclass(frozen=True, slots=True)
class Wait:
    """A collective that some ranks are in.

    ``inside`` wait in it, ``absent`` have not entered it (ranks of which nothing is heard among them), ``left`` of the
    group have finished it already. ``calls`` says for each rank that has not gone past it what it entered as number
    ``sequence``, "" where the backend does not tell.
    """

    group: str
    size: int
    sequence: int
    inside: tuple[RankView, ...]
    absent: tuple[int, ...]
    left: int
    calls: Mapping[int, str]

    @property
    def what(self) -> str:
        """The collective as one names it: ``all_reduce 118 of group default``."""
        name = next((operation(call) for call in self.calls.values() if call), "collective")
        if self.group.endswith((f"/{INIT}", f"/{MESH}")):
            return name
        if self.group.endswith(f"/{NEW}"):
            return f"{name} (the group {self.group.removesuffix(f'/{NEW}')!r})"
        return f"{name} {self.sequence} of group {self.group}"

    @property
    def since(self) -> float:
        """Seconds since the first of those inside came."""
        return max(view.progress.progress_age for view in self.inside)


def operation(call: str) -> str:
    """``all_reduce`` of ``all_reduce float32[1024]``."""
    return call.split(" ", 1)[0]


def waits(views: Sequence[RankView]) -> tuple[Wait, ...]:
    """Every collective that a rank waits in, those with the most ranks inside first.

    Of several that a rank has started in one group (with ``async_op``), it is the oldest unfinished one that it waits
    in: collectives of one group end in their order.
    """
    groups: dict[Key, dict[int, Seen]] = {}
    for view in views:
        for group in view.progress.groups:
            groups.setdefault((group.name, group.ranks), {})[view.rank] = (view, group)
    for key, seen in groups.items():
        if any(group.making for _, group in seen.values()):
            seen.update(_through(key, seen, views))
    found = [wait for key, seen in groups.items() for wait in _waits_of(key, seen)]
    return tuple(sorted(found, key=lambda wait: (-len(wait.inside), wait.group, wait.sequence)))


def _through(key: Key, seen: Mapping[int, Seen], views: Sequence[RankView]) -> dict[int, Seen]:
    """Who has the group that those who are seen wait for to be made: these are through with its making."""
    name, ranks = key
    made = name.split("/", 1)[0] + "/"
    size = max(group.size for _, group in seen.values())
    done = GroupProgress(name, size, 1, 1, "", ranks)
    having = (v for v in views if any(g.name.startswith(made) and not g.making for g in v.progress.groups))
    return {view.rank: (view, done) for view in having if view.rank not in seen}


def _waits_of(key: Key, seen: Mapping[int, Seen]) -> Iterable[Wait]:
    name, ranks = key
    inside: dict[int, list[RankView]] = {}
    for view, group in seen.values():
        if group.waiting:
            inside.setdefault(group.finished + 1, []).append(view)
    size = max(group.size for _, group in seen.values())
    members = ranks or range(size)
    for sequence, waiting in inside.items():
        yield Wait(
            group=name,
            size=size,
            sequence=sequence,
            inside=tuple(waiting),
            absent=tuple(r for r in members if r not in seen or seen[r][1].started < sequence),
            left=sum(1 for _, group in seen.values() if group.finished >= sequence),
            calls={r: group.collective for r, (_, group) in seen.items() if group.started == sequence},
        )


def awaited(views: Sequence[RankView]) -> dict[int, int]:
    """The ranks that others wait for and that wait for nobody themselves, each with how many wait for it."""
    waiting = {view.rank for view in views if view.waiting}
    found: dict[int, int] = {}
    for wait in waits(views) if waiting else ():
        for rank in set(wait.absent) - waiting:
            found[rank] = max(found.get(rank, 0), len(wait.inside))
    return found


def circle(found: Sequence[Wait]) -> tuple[tuple[RankView, Wait], ...]:
    """Ranks that wait for each other in a ring, each with what it waits in; () where there is none."""
    place = {view.rank: (view, wait) for wait in found if wait.absent for view in wait.inside}
    for rank in place:
        path: dict[int, int] = {}
        while rank in place and rank not in path:
            path[rank] = len(path)
            rank = next((r for r in place[rank][1].absent if r in place), -1)
        if rank in path:
            return tuple(place[r] for r in list(path)[path[rank] :])
    return ()
