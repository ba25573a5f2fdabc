"""The process groups of torch.distributed as this rank sees them, without the program's help."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elaunch.progress import GroupProgress
from elaunch.worker import background, point_to_point
from elaunch.worker.point_to_point import numbers
from elaunch.worker.recorder import Entry, Recorder, recorders

_DESCRIBE = 5  # looks at the same collective after which it is worth asking which one it is
_DESCRIBE_FIRST = {"nccl": 100}  # a group's first one may be making connections, and is recorded after that


@dataclass(slots=True)
class _Group:
    """One backend of one process group. ``number`` is the recorder's, None before it has recorded anything.

    ``started`` and ``finished`` are the group's own sequence numbers, sends and receives included. All up to
    ``retired`` are over, whatever the recorder's status says.
    """

    name: str
    backend: str
    size: int
    ranks: tuple[int, ...]
    group: Callable[[], Any]
    number: int | None = None
    started: int = 0
    finished: int = 0
    retired: int = 0
    on_device: bool = False
    looks: int = 0
    collective: str = ""

    @property
    def label(self) -> str:
        desc = getattr(self.group(), "group_desc", "") or ""
        return "/".join([self.name, *([desc] if desc != "undefined" else []), self.backend])

    def sequence(self) -> int:
        """The group's own number of collectives begun, 0 where its backend keeps none."""
        group = self.group()
        try:
            return int(group._get_sequence_number_for_group()) if group is not None else 0
        except RuntimeError:
            return 0

    def set(self, started: int, finished: int) -> None:
        finished = max(finished, self.retired)
        self.looks = self.looks + 1 if (self.started, self.finished) == (started, finished) else 0
        if started != self.started:
            self.collective = ""
        self.started, self.finished = started, finished

    def retire(self, known: Mapping[int, bool]) -> None:
        """Correct ``finished`` by what the entries say: of each number whether it is retired."""
        if self.started in known:
            open_ = [number for number, retired in known.items() if number > self.finished and not retired]
            self.retired = min([self.started, *(number - 1 for number in open_)])
            self.finished = max(self.finished, self.retired)


class Groups:
    """``progress`` is what the last look saw.

    ``waiting`` tells that a collective of a backend on the host was under way then, ``on_device`` that the device was
    in one.
    """

    def __init__(self) -> None:
        self.progress: tuple[GroupProgress, ...] = ()
        self.waiting = False
        self.on_device = False
        self._groups: list[_Group] = []
        self._labels: dict[int, str] = {}
        self._listed: object = None
        self._recorders: list[Recorder] | None = None
        self._names: dict[tuple[str, int], str] = {}  # by backend and the recorder's number
        self._used: set[tuple[str, int]] = set()

    def look(self, meeting: GroupProgress | None = None, *, inside: bool, still: bool, describe: bool = False) -> None:
        """``inside``: a thread may be in the middle of beginning a collective. ``still``: as at the look before.

        ``describe``: tell at once, and not only after a while, what is waited for. ``meeting`` is a group that the main
        thread waits for to be made.
        A recorder must not be asked while a group's first collective is being recorded: it does not lock that.
        """
        self._list()
        if not self._groups:
            self.progress = (meeting,) if meeting else ()
            self.waiting, self.on_device = meeting is not None, False
            return
        unknown = [g for g in self._groups if g.number is None]
        begun = [g for g in unknown if numbers(g.group()).collectives(g.sequence()) > 0]
        if not unknown or not inside or (still and all(map(_recorded, begun))):
            self._ask(bool(begun))
        for group in begun:
            if group.number is None:
                sequence = group.sequence()
                group.set(sequence, sequence - 1 if inside else sequence)
        self._describe(describe)
        self.waiting = meeting is not None or any(g.started > g.finished for g in self._groups if g.backend != "nccl")
        self.on_device = any(g.on_device for g in self._groups if g.backend == "nccl")
        self.progress = (*([meeting] if meeting else []), *self._progress())

    def traces(self) -> dict[str, bytes]:
        """The whole flight records, as JSON, by backend; only where something was recorded."""
        return {r.backend: r.trace() for r in self._recorders or () if any(b == r.backend for b, _ in self._names)}

    def _list(self) -> None:
        """Which groups there are; they are looked through only where their number has changed."""
        world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
        if world is None:
            return
        if self._recorders is None:
            c10d = sys.modules["torch._C._distributed_c10d"]
            self._recorders = recorders(c10d)
            point_to_point.watch(c10d.ProcessGroup)
        listed = (len(world.pg_names), world.group_count, id(world.default_pg), background.declared())
        if listed == self._listed:
            return
        known = {(g.name, g.backend): g for g in self._groups if g.group() is not None}
        found = list(_listed(world))
        self._groups = [
            known[key] if (key := (g.name, g.backend)) in known and known[key].group() is g.group() else g
            for g in found
        ]
        self._labels = {id(g): g.label for g in self._groups}
        self._listed = listed

    def _ask(self, name: bool) -> None:
        """Ask the recorders, and learn the names of new numbers if ``name``."""
        for recorder in self._recorders or ():
            groups = [g for g in self._groups if g.backend == recorder.backend]
            if not groups:
                continue
            statuses = recorder.statuses()
            if name and any((recorder.backend, n) not in self._names for n in statuses):
                self._learn(recorder.backend, recorder.entries())
            for group in groups:
                status = statuses.get(group.number) if group.number is not None else None
                if status is not None:
                    group.set(status.enqueued, status.completed)
                    group.on_device = status.begun > status.completed

    def _learn(self, backend: str, entries: Iterable[Entry]) -> None:
        """Which number is which group. A destroyed group's name may come back, with another number."""
        self._names.update({(backend, entry.group_id): entry.group_name for entry in entries})
        for group in self._groups:
            free = [
                number
                for (backend, number), name in self._names.items()
                if (backend, name) == (group.backend, group.name) and (backend, number) not in self._used
            ]
            if group.number is None and free:
                group.number = max(free)
                self._used.update((group.backend, number) for number in free)

    def _describe(self, now: bool) -> None:
        """Ask which collectives they are that have been waited for a while, or that are waited for now."""
        for recorder in self._recorders or ():
            waiting = [g for g in self._groups if g.backend == recorder.backend and g.started > g.finished]
            if not any((now and not g.collective) or _due(g) for g in waiting):
                continue
            entries = recorder.entries()
            self._learn(recorder.backend, entries)
            texts = {(e.group_id, e.number): e.text for e in entries}
            for group in waiting:
                if group.number is not None:
                    group.collective = texts.get((group.number, group.started), "")
                    group.retire({e.number: e.retired for e in entries if e.group_id == group.number})

    def _progress(self) -> Iterator[GroupProgress]:
        world = max(g.size for g in self._groups)
        for g in self._groups:
            ranks = () if g.size == world else g.ranks
            others = numbers(g.group())
            started, finished = others.collectives(g.started), others.collectives(g.finished)
            others.forget(g.finished)
            yield GroupProgress(self._labels[id(g)], g.size, started, finished, g.collective, ranks)


def _recorded(group: _Group) -> bool:
    """What had begun at the last look has been recorded by now, unless that comes after making connections."""
    return group.backend not in _DESCRIBE_FIRST and group.started == group.sequence()


def _due(group: _Group) -> bool:
    first = group.number is None
    return group.looks == (_DESCRIBE_FIRST.get(group.backend, _DESCRIBE) if first else _DESCRIBE)


def _listed(world: Any) -> Iterator[_Group]:
    for group, name in list(world.pg_names.items()):
        if background.is_background(group):
            continue
        ranks = world.pg_group_ranks.get(group, {})
        in_order = tuple(sorted(ranks, key=lambda rank: ranks[rank]))
        for backend in _backends(str(world.pg_backend_config.get(group, ""))):
            yield _Group(str(name), backend, len(in_order), in_order, weakref.ref(group))


def _backends(config: str) -> list[str]:
    """``["gloo", "nccl"]`` for "cpu:gloo,cuda:nccl"."""
    return sorted({part.rpartition(":")[2] for part in config.split(",") if part})
