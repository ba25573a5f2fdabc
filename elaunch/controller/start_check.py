"""Whether the ranks of a start can ever become one group, and in which phase each is: records in, sentences out.

The ranks compare themselves at their store, but those that ask torch for different worlds never meet there. So the
leader looks at what all of them are inside of. Programs may make worlds of their own, of some ranks or elsewhere: it is
a fault only where every rank of the job waits inside at the generation's own store, no world there is complete, and
they disagree. That must hold for ``GRACE`` seconds, since records of different nodes are of different moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from elaunch.controller.blame import Hang
from elaunch.controller.hang import ALL_WAITING
from elaunch.controller.signs import HUNG
from elaunch.progress import INIT
from elaunch.start_record import CHECKED, DOES, IMPORTING, LEFT, PHASES, StartRecord
from elaunch.start_rules import claim_of, disagreement, ranks

START_CHECK = "start_check"
START_TIMEOUT = "start_timeout"
GRACE = 1.0


@dataclass(frozen=True, slots=True)
class _Seen:
    record: StartRecord
    node_id: str
    since: float


class Starts:
    """What a leader knows of the starts of one generation. Times are seconds of its monotonic clock."""

    def __init__(self, generation: int, world_size: int) -> None:
        self._generation = generation
        self._world_size = world_size
        self._seen: dict[int, _Seen] = {}
        self._conflict = ""
        self._stale = True
        self._through = self._inside = 0  # ranks that have their process group, and that are on their way to it

    def hear(self, node_id: str, starts: Iterable[StartRecord], now: float) -> None:
        """What a node's status tells; records of another generation are left out."""
        for record in starts:
            old = self._seen.get(record.rank)
            if record.generation == self._generation and (old is None or old.record != record):
                self._seen[record.rank] = _Seen(record, node_id, now)
                self._stale = True
                self._through += _is_through(record) - (old is not None and _is_through(old.record))
                self._inside += record.inside - (old is not None and old.record.inside)

    def forget(self, node_id: str) -> None:
        """The node is gone."""
        self._seen = {rank: seen for rank, seen in self._seen.items() if seen.node_id != node_id}
        self._stale = True
        self._through = sum(_is_through(seen.record) for seen in self._seen.values())
        self._inside = sum(seen.record.inside for seen in self._seen.values())

    def refusal(self, now: float, awake: float = 0.0) -> str:
        """Why these ranks will never be one group; "" while they may. The leader runs without a gap since ``awake``."""
        if self._stale:
            self._conflict, self._stale = conflict(self._records, self._world_size), False
        return self._conflict if self._conflict and now - max(self._last, awake) >= GRACE else ""

    def overdue(self, limit: float | None, now: float, awake: float = 0.0) -> Hang | None:
        """All ranks are inside for longer than ``limit`` seconds, and nobody is left who could still come."""
        records = self._records
        if limit is None or len(records) < self._world_size or not all(r.inside and r.shared for r in records):
            return None
        since = now - max(self._last, awake)
        if since < limit:
            return None
        text = f"all {self._world_size} ranks are inside of {INIT} since {since:.0f} s, and it comes to no end"
        return Hang(START_TIMEOUT, text + self.phases() + _worlds(records), waiting=len(records), seconds=since)

    def explained(self, hang: Hang | None) -> Hang | None:
        """``hang`` with the phases, where it is the start that hangs, and with who has left its groups."""
        if hang is None or not self._seen:
            return hang
        if hang.group.endswith(f"/{INIT}"):
            code = START_TIMEOUT if hang.code in (HUNG, ALL_WAITING) else hang.code
            return replace(hang, code=code, text=hang.text + self.phases() + _transports(self._records))
        gone = [c.rank for c in hang.culprits if c.rank in self._seen and self._seen[c.rank].record.phase == LEFT]
        if not gone:
            return hang
        have = "has" if len(gone) == 1 else "have"
        return replace(hang, text=f"{hang.text}; {ranks(gone)} {have} destroyed the process groups that others wait in")

    def phases(self) -> str:
        """``; phase importing (has not come to init_process_group): rank 1; phase ...``: of a start that hangs."""
        known = {rank: seen.record.phase for rank, seen in self._seen.items()}
        return told_phases({rank: known.get(rank, IMPORTING) for rank in range(self._world_size)})

    @property
    def through(self) -> float | None:
        """Since when all ranks have their process group; None while one has not."""
        return self._last if self._through and self._through >= self._world_size else None

    @property
    def known(self) -> bool:
        """Whether any rank has told of its start."""
        return bool(self._seen)

    @property
    def under_way(self) -> bool:
        """Whether a rank is inside of ``init_process_group``."""
        return self._inside > 0

    @property
    def _records(self) -> list[StartRecord]:
        return [self._seen[rank].record for rank in sorted(self._seen)]

    @property
    def _last(self) -> float:
        return max((seen.since for seen in self._seen.values()), default=0.0)


def _is_through(record: StartRecord) -> bool:
    return record.phase in (CHECKED, LEFT)


def conflict(records: Sequence[StartRecord], world_size: int) -> str:
    """What keeps the ranks from one another, as far as it is certain; "" else."""
    if len(records) < world_size or not all(record.shared for record in records):
        return ""
    claims = [claim_of(record) for record in records]
    if all(record.asked_world_size == world_size for record in records):
        # A program may begin anew in another order, some ranks earlier than others.
        return disagreement(claims) if len({record.inits for record in records}) == 1 else ""
    if not all(record.inside for record in records):
        return ""
    worlds: dict[int, list[int]] = {}
    for record in records:
        worlds.setdefault(record.asked_world_size, []).append(record.asked_rank)
    if any(set(asked) >= set(range(size)) for size, asked in worlds.items()):
        return ""  # that one is about to be through
    if len(worlds) == 1 and all(len(set(asked)) == len(asked) for asked in worlds.values()):
        return ""  # they agree: others, whom we do not know, may complete it
    return disagreement(claims)


def ended_in(record: StartRecord | None, others: Sequence[StartRecord], world_size: int) -> str:
    """What is added to the sentence of a rank that has ended: that it was in its start, and who had not come."""
    if record is None or not (record.phase in PHASES[1:5] or record.error):
        return ""
    error = f": {record.error}" if record.error else ""
    known = {other.rank: other.phase for other in others}
    phases = {rank: known.get(rank, IMPORTING) for rank in range(world_size) if rank != record.rank}
    doing = f"in phase {record.phase} of its start ({DOES[record.phase]})"
    return f"; {doing}{error}{told_phases(phases, but=record.phase)}"


def told_phases(phases: Mapping[int, str], but: str = "") -> str:
    """Who is where, the earliest phase first, without that of ``but``."""
    parts = []
    for phase in PHASES:
        if (inside := [rank for rank, at in phases.items() if at == phase]) and phase != but:
            parts.append(f"; phase {phase} ({DOES[phase]}): {ranks(inside)}")
    return "".join(parts)


def _transports(records: Sequence[StartRecord]) -> str:
    return _differing(records, lambda record: record.transport, "connects by", "connect by")


def _worlds(records: Sequence[StartRecord]) -> str:
    asked = sorted({record.asked_world_size for record in records})
    return f"; they asked for a world of {', '.join(map(str, asked))}" if asked != [len(records)] else ""


def _differing(records: Sequence[StartRecord], value: Callable[[StartRecord], str], one: str, several: str) -> str:
    held: dict[str, list[int]] = {}
    for record in records:
        if found := value(record):
            held.setdefault(found, []).append(record.rank)
    if len(held) < 2:
        return ""
    groups = sorted(held.items(), key=lambda item: len(item[1]))
    return "".join(f"; {ranks(who)} {one if len(who) == 1 else several} {what}" for what, who in groups[:4])
