"""A beat of a rank's thread as bytes, in its page of shared memory."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from elaunch.packing import Cursor, several, text
from elaunch.progress import GroupProgress

_BEAT = struct.Struct("<QQdd")
_GROUP = struct.Struct("<IQQ")
_RUN = struct.Struct("<III")
_MOST_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Beat:
    """What the rank's thread saw at its last beat. ``moves`` counts how often the main thread's place had changed."""

    beats: int
    moves: int = 0
    own_seconds: float = 0.0
    waited_seconds: float = 0.0
    where: str = ""
    groups: tuple[GroupProgress, ...] = ()


def packed_beat(beat: Beat, room: int) -> bytes:
    """In ``room`` bytes. Groups that do not fit are left out, the last first."""
    head = _BEAT.pack(beat.beats, beat.moves, beat.own_seconds, beat.waited_seconds) + text(beat.where)
    return head + several(map(_packed_group, beat.groups), room - len(head))


def beat_in(cursor: Cursor) -> Beat:
    """Raises ValueError for what is none."""
    beats, moves, own, waited = cursor.take(_BEAT)
    if not (math.isfinite(own) and math.isfinite(waited)):
        raise ValueError("no number of seconds")
    return Beat(beats, moves, own, waited, cursor.text(), cursor.several(_group))


def _packed_group(group: GroupProgress) -> bytes:
    head = _GROUP.pack(group.size, group.started, group.finished) + text(group.name) + text(group.collective)
    return head + _packed_ranks(group.ranks)


def _group(cursor: Cursor) -> GroupProgress:
    size, started, finished = cursor.take(_GROUP)
    name, collective = cursor.text(), cursor.text()
    return GroupProgress(name, size, started, finished, collective, _ranks(cursor.block(_RUN)))


@lru_cache(maxsize=256)
def _packed_ranks(ranks: tuple[int, ...]) -> bytes:
    return several([_RUN.pack(*run) for run in _runs(ranks)], 1 << 16)


@lru_cache(maxsize=1024)
def _ranks(packed: bytes) -> tuple[int, ...]:
    runs = list(_RUN.iter_unpack(packed))
    if sum(count for _, _, count in runs) > _MOST_RANKS:
        raise ValueError("more ranks than there can be")
    return tuple(first + step * n for first, step, count in runs for n in range(count))


def _runs(ranks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Ranks as (first, step, count): the groups of a mesh are one run each."""
    runs: list[tuple[int, int, int]] = []
    for rank in ranks:
        if runs:
            first, step, count = runs[-1]
            if count == 1 and rank > first:
                runs[-1] = (first, rank - first, 2)
                continue
            if rank == first + step * count and count > 1:
                runs[-1] = (first, step, count + 1)
                continue
        runs.append((rank, 1, 1))
    return runs
