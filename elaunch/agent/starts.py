"""What this node's ranks tell of their starts: read from their pages, put on the status board, one line of log each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, replace

import structlog

from elaunch.agent.sight import Sight
from elaunch.start_record import CHECKED, LEFT, StartRecord

PACE = 0.4  # seconds
_QUIET = {"shared", "asymmetry", "fault"}


class Starts:
    """The newest record of each rank of one generation, by rank."""

    def __init__(self) -> None:
        self._generation = 0
        self._seen: dict[int, int] = {}
        self._logged: set[int] = set()
        self._records: dict[int, StartRecord] = {}
        self._told: tuple[StartRecord, ...] = ()
        self._told_at = -math.inf
        self._urgent = self._news = False
        self._log = structlog.get_logger()

    def told(self, now: float) -> tuple[StartRecord, ...]:
        """What the leader is to know at ``now``, by rank: what is not urgent is told a few times a second at most.

        A thousand nodes would else send it a status for each phase of each rank.
        """
        if self._urgent or (self._news and now >= self._told_at + PACE):
            self._told = tuple(self._records[rank] for rank in sorted(self._records))
            self._told_at, self._urgent, self._news = now, False, False
        return self._told

    def begin(self, generation: int) -> None:
        """Another generation: nothing is known of its ranks yet."""
        if generation != self._generation:
            self._generation = generation
            self._seen, self._logged, self._records = {}, set(), {}
            self._told, self._told_at, self._urgent = (), -math.inf, False

    def look(self, sights: Iterable[Sight]) -> None:
        """Take in what has changed since the last look."""
        for sight in sights:
            number = sight.page.starts
            if number == self._seen.get(sight.rank, 0):
                continue
            record = sight.page.start()
            if record is None:
                continue  # in the middle of being written, or nothing that can be read
            self._seen[sight.rank] = number
            # Who it is the agent knows better than what a program may have written over its page.
            record = replace(record, rank=sight.rank, local_rank=sight.local_rank, generation=self._generation)
            self._records[sight.rank] = record
            self._news = True
            self._urgent |= bool(record.fault or record.error)
            if record.phase in (CHECKED, LEFT) or record.error or record.fault:
                self._tell(record)

    def ended(self, rank: int) -> None:
        """The rank's process is gone: how far its start had come is worth its line now."""
        self._urgent |= self._news
        if record := self._records.get(rank):
            self._tell(record)

    def _tell(self, record: StartRecord) -> None:
        if record.rank in self._logged:
            return
        self._logged.add(record.rank)
        values = {name: value for name, value in asdict(record).items() if name not in _QUIET and name != "job"}
        self._log.info("rank_started", **values)
