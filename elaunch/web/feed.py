"""What one job's page is kept up to date with: made once for all who look, at a bounded pace, and only while one does.

There is no queue: each client remembers what it has, and takes what is newer when it can. Who is slow gets fewer, newer
messages, and a whole table of ranks where it has missed too many changes; who takes nothing for long is let go of.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from elaunch.controller.chronicle import follow_happenings
from elaunch.errors import ElaunchError, EtcdLostError, EtcdRefusedError
from elaunch.metrics.goodput import PHASES
from elaunch.rendezvous.journal import Happening
from elaunch.rendezvous.waiting import cancelled, within
from elaunch.web.documents import event_row, job_document, without_ages
from elaunch.web.generations import generations_document
from elaunch.web.packing import packed
from elaunch.web.pages import hang_document, ports_document
from elaunch.web.rank_ages import Ages
from elaunch.web.rank_table import RankTable, alike, delta, new_texts, rank_table, whole
from elaunch.web.source import Facts, Source

INTERVAL = 1.0  # seconds between two looks
AGES_EVERY = 5.0  # seconds after which a document is sent again though only ages changed
KEPT_DELTAS = 16
KEPT_LINES = 1000
FIRST_LINES = 200  # of the history, for a client that has none
BEAT = 10.0  # seconds without a message after which a client is told that it is still connected

News = tuple[int, str, bytes]
"""The number of the last line of the history that a client has with it, the message's name, its data."""


@dataclass(slots=True)
class Topic:
    """The newest message of one kind, and a number that grows with each."""

    version: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Cursor:
    """What a client has: the version of each topic, and the last line of the history."""

    seq: int = -1
    topics: dict[str, int] = field(default_factory=dict)
    ranks: int = 0


class Feed:
    """One job's news."""

    def __init__(self, source: Source, job: str) -> None:
        self.job = job
        self.ended = ""
        self._source = source
        self._topics: dict[str, Topic] = {}
        self._lines: deque[Happening] = deque(maxlen=KEPT_LINES)
        self._changed = asyncio.Event()
        self._table: RankTable | None = None
        self._texts = new_texts()
        self._ages = Ages()
        self._ranks = 0  # the version of the table
        self._whole: tuple[int, bytes] = (0, b"")
        self._deltas: deque[tuple[int, bytes]] = deque(maxlen=KEPT_DELTAS)
        self._at = 0.0
        self._sent: dict[str, tuple[float, Any]] = {}

    async def run(self) -> None:
        """Gather until cancelled, or until there is no such job any more."""
        tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._read())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except ElaunchError as error:
            self.ended = str(error)
        finally:
            self.ended = self.ended or "it is not looked at any more"
            await cancelled(*tasks)
            self._tell()

    async def follow(self, cursor: Cursor) -> AsyncGenerator[News, None]:
        """Messages as they come; one without a name where there is nothing to be told."""
        while True:
            changed = self._changed
            for news in self._newer(cursor):
                yield news
            if self.ended:
                return
            if changed is not self._changed:
                continue
            try:
                await within(BEAT, changed.wait())
            except asyncio.TimeoutError:
                yield cursor.seq, "", b""

    def _newer(self, cursor: Cursor) -> list[News]:
        found: list[News] = []
        for name, topic in self._topics.items():
            if cursor.topics.get(name, 0) < topic.version:
                cursor.topics[name] = topic.version
                found.append((cursor.seq, name, topic.data))
        found += [(cursor.seq, name, data) for name, data in self._newer_ranks(cursor)]
        if cursor.seq < 0 and len(self._lines) > FIRST_LINES:
            cursor.seq = self._lines[-FIRST_LINES - 1].seq
        for line in self._lines:
            if line.seq > cursor.seq:
                cursor.seq = line.seq
                found.append((line.seq, "event", packed(event_row(line))))
        return found

    def _newer_ranks(self, cursor: Cursor) -> list[tuple[str, bytes]]:
        if cursor.ranks >= self._ranks or self._table is None:
            return []
        missed = [data for version, data in self._deltas if version > cursor.ranks]
        if cursor.ranks and len(missed) == self._ranks - cursor.ranks:
            cursor.ranks = self._ranks
            return [("ranks_delta", data) for data in missed]
        behind = cursor.ranks > 0 and bool(self._deltas)
        cursor.ranks = self._ranks
        if self._whole[0] != self._ranks:
            self._whole = (self._ranks, packed(whole(self._table, self.job, self._at)))
        reset = [("reset", packed({"why": "too slow"}))] if behind else []
        return [*reset, ("ranks", self._whole[1])]

    async def _look(self) -> None:
        while True:
            try:
                facts = await self._source.facts(self.job)
                table, change, document = await asyncio.to_thread(self._read_off, facts)
                self._put("job", document, without_ages(document))
                self._take_ranks(table, change, facts.at)
                self._take_generations(facts)
                hang = hang_document(facts)
                self._put("hang", hang, hang, 3600.0)
                ports = ports_document(facts)
                self._put("ports", ports, _troubles(ports))
            except (EtcdLostError, EtcdRefusedError) as error:
                structlog.get_logger().debug("web_facts_missing", job=self.job, reason=str(error))
            self._tell()
            await asyncio.sleep(INTERVAL)

    async def _read(self) -> None:
        while True:
            try:
                async with aclosing(follow_happenings(self._source.store, self.job)) as lines:
                    async for line in lines:
                        if not self._lines or line.seq > self._lines[-1].seq:
                            self._lines.append(line)
                            self._tell()
            except (EtcdLostError, EtcdRefusedError) as error:
                structlog.get_logger().debug("web_events_missing", job=self.job, reason=str(error))
            await asyncio.sleep(INTERVAL)  # the job is over, or etcd is away: it may begin anew

    def _put(self, name: str, document: Any, news: Any, every: float = AGES_EVERY) -> None:
        """A topic's newest document, if ``news`` of it are others than before, or its ages are old."""
        now = self._source.clock.monotonic()
        due, before = self._sent.get(name, (0.0, None))
        if before == news and now < due:
            return
        self._sent[name] = (now + every, news)
        topic = self._topics.setdefault(name, Topic())
        topic.version += 1
        topic.data = packed(document)

    def _take_generations(self, facts: Facts) -> None:
        """The timeline, where it has changed; what only grows with time the page can add itself.

        The history is read beside this: a job with a plan has one; without it a running job would have no generation.
        """
        if not self._lines and facts.seen.plan is not None:
            return
        accounts = facts.reply.accounts if facts.reply is not None else None
        news = (self._lines[-1].seq if self._lines else -1, accounts.activity if accounts else "")
        if self._sent.get("generations", (0.0, None))[1] != news or (accounts and accounts.activity in PHASES):
            lines = tuple(self._lines)
            document = generations_document(self.job, lines, facts.reply, facts.at, facts.seen.plan)
            self._put("generations", document, news)

    def _read_off(self, facts: Facts) -> tuple[RankTable, bytes | None, dict[str, Any]]:
        """The ranks, how they changed (None: not as a change, b"": not at all), and the job; done in a thread."""
        before, table = self._table, rank_table(facts.reply, self._texts)
        if table.full:
            self._texts = new_texts()  # for the next one
        if before is None or not alike(before, table) or before.texts is not table.texts:
            self._ages.begin(table, facts.at)
            return table, None, job_document(facts)
        change = delta(before, table, facts.at, self._ages.renewed(table, facts.at))
        if change is not None:
            self._ages.told(table, facts.at, change["index"])
        return table, packed(change) if change is not None else b"", job_document(facts)

    def _take_ranks(self, table: RankTable, change: bytes | None, at: float) -> None:
        if change == b"":
            return  # the ages of the table that is kept are of its own time
        if change is None:
            self._deltas.clear()
        else:
            self._deltas.append((self._ranks + 1, change))
        self._table, self._at = table, at
        self._ranks += 1

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _troubles(ports: dict[str, Any]) -> list[Any]:
    """What of the ports is news when it changes: not for how long a trouble has been."""
    return [
        (row["host"], row["port"], [(one["code"], one["text"]) for one in row["trouble"]]) for row in ports["ports"]
    ]
