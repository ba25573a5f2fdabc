"""Which feeds there are: one for each job that somebody looks at, made and let go of as they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from elaunch.errors import CommandRefusedError, EtcdLostError, EtcdRefusedError, NoSuchJobError
from elaunch.rendezvous.waiting import cancelled
from elaunch.web.feed import BEAT, INTERVAL, Cursor, Feed, News
from elaunch.web.mistakes import tell
from elaunch.web.packing import packed
from elaunch.web.source import Source

LINGER = 5.0  # seconds for which a feed goes on without clients: a page that is loaded again finds it
_OF_ROWS = ("checkpoint_age", "goodput")


class Feeds:
    """The feeds that somebody follows, each with the task that fills it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}
        self._users: dict[str, int] = {}

    async def follow(self, job: str, seq: int) -> AsyncGenerator[News, None]:
        """What is new of ``job`` after the line ``seq`` of its history. Raises as ``Source.seen``."""
        await self._source.seen(job)
        known = self._feeds.get(job)
        if known is None or known[1].done():
            feed = Feed(self._source, job)
            self._feeds[job] = known = (feed, asyncio.create_task(feed.run()))
            known[1].add_done_callback(tell)
        self._users[job] = self._users.get(job, 0) + 1
        try:
            cursor = Cursor(seq)
            async for message in known[0].follow(cursor):
                yield message
            yield cursor.seq, "end", packed({"why": known[0].ended})
        finally:
            self._users[job] -= 1
            if not self._users[job]:
                asyncio.get_running_loop().call_later(LINGER, self._leave, job)

    async def follow_jobs(self, jobs: Callable[[], Awaitable[Any]]) -> AsyncGenerator[News, None]:
        """The list of jobs, whenever it has changed."""
        before: Any = None
        quiet = 0.0
        while True:
            try:
                document = await jobs()
                news = [{k: v for k, v in row.items() if k not in _OF_ROWS} for row in document["jobs"]]
                if news != before or quiet >= BEAT:
                    before, quiet = news, 0.0
                    yield 0, "jobs", packed(document)
            except (EtcdLostError, EtcdRefusedError, NoSuchJobError, CommandRefusedError):
                yield 0, "", b""
            quiet += INTERVAL
            await asyncio.sleep(INTERVAL)

    def _leave(self, job: str) -> None:
        if not self._users.get(job) and job in self._feeds:
            _, task = self._feeds.pop(job)
            self._users.pop(job, None)
            task.cancel()

    async def close(self) -> None:
        """End all feeds, and so the streams that follow them."""
        tasks = [task for _, task in self._feeds.values()]
        self._feeds.clear()
        await cancelled(*tasks)
