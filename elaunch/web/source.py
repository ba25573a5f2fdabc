"""Where the pages' facts come from: etcd, the terms that this process serves, and the leaders elsewhere.

However many browsers look, and however often: a job's facts are gathered at most once in ``INTERVAL``, and where they
are many, so seldom that it costs a tenth of the leader's time at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from elaunch.clock import Clock
from elaunch.controller.access import Security
from elaunch.controller.chronicle import happenings
from elaunch.controller.leader import Term
from elaunch.controller.operator_client import live_status
from elaunch.controller.operator_server import status_aside
from elaunch.controller.survey import Overview, job_names, overview
from elaunch.errors import CommandRefusedError, EtcdLostError, NoSuchJobError, UsageError
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.pictures import find_picture
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.waiting import within

T = TypeVar("T")
Live = pb.StatusReply | str
INTERVAL = 0.25  # seconds for which facts count as new
SEEN_FOR = 1.0  # and those in etcd
LISTED_FOR = 2.0  # and the list of all jobs
SHARE = 0.1  # of the loop's time that gathering may take
LONGEST = 5.0  # seconds for which facts are kept at most: what took long may have waited for somebody who is back
PATIENCE = 5.0  # seconds that etcd or another leader gets
MOST_JOBS = 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """A job at ``at`` (wall clock). ``live`` is what its leader says, or why it does not; ``here``: that is we."""

    at: float
    seen: Overview
    live: Live
    here: bool = False

    @property
    def reply(self) -> pb.StatusReply | None:
        """What the leader says, if it does."""
        return None if isinstance(self.live, str) else self.live


class Kept(Generic[T]):
    """The last value of each key, made anew when it is asked for and older than its time; by one at a time."""

    def __init__(self, make: Callable[[str], Awaitable[T]], seconds: float, clock: Clock) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._values: dict[str, tuple[float, T]] = {}
        self._making: dict[str, asyncio.Task[T]] = {}

    async def get(self, key: str) -> T:
        """Raises what making it raises."""
        known = self._values.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            return known[1]
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._made(key))
            task.add_done_callback(lambda ended: self._end(key, ended))
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        """Make it anew the next time: it is known to have changed."""
        self._values.pop(key, None)

    async def _made(self, key: str) -> T:
        began = self._clock.monotonic()
        value = await self._make(key)
        now = self._clock.monotonic()
        self._values = {name: kept for name, kept in self._values.items() if kept[0] > now - 60.0}
        self._values[key] = (now + max(self._seconds, min(LONGEST, (now - began) / SHARE)), value)
        return value

    def _end(self, key: str, task: asyncio.Task[T]) -> None:
        self._making.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to whoever waits; nobody may be left to


class Source:
    """Facts of all jobs of ``store``, or of the one job ``only``."""

    def __init__(
        self,
        store: Store,
        led: Callable[[str], Term | None],
        security: Security,
        clock: Clock,
        only: str = "",
    ) -> None:
        """``led`` gives the term of a job that this process leads."""
        self.store = store
        self.clock = clock
        self.only = only
        self.led = led
        self._security = security
        self._last: dict[str, Overview] = {}
        self._seen = Kept(self._look, SEEN_FOR, clock)
        self._facts = Kept(self._gather, INTERVAL, clock)
        self._history = Kept(self._read, INTERVAL, clock)
        self._names = Kept(self._list, LISTED_FOR, clock)
        self._all = Kept(self._gather_all, INTERVAL, clock)

    async def names(self) -> list[str]:
        """The jobs that there are."""
        return [self.only] if self.only else await self._names.get("")

    async def seen(self, job: str) -> Overview:
        """What etcd has of a job. Raises NoSuchJobError, CommandRefusedError, EtcdLostError."""
        self._check(job)
        return await self._seen.get(job)

    async def facts(self, job: str) -> Facts:
        """All that is known of a job. Raises as ``seen``."""
        self._check(job)
        return await self._facts.get(job)

    def forget(self, job: str) -> None:
        """Something was done to the job: what was known of it is old."""
        self._seen.forget(job)
        self._facts.forget(job)
        self._all.forget("")
        self._history.forget(job)

    async def history(self, job: str) -> list[Happening]:
        """The job's events, oldest first. Raises as ``seen``."""
        self._check(job)
        return await self._history.get(job)

    async def _read(self, job: str) -> list[Happening]:
        return await _soon(happenings(self.store, job))

    async def picture(self, job: str, digest: str) -> str | None:
        """What machines of this digest look like, as SVG. Raises EtcdLostError."""
        return await _soon(find_picture(self.store, JobKeys(job), digest))

    async def everything(self) -> list[Facts]:
        """The facts of each job; what leads elsewhere is not asked, but taken from etcd. Raises EtcdLostError."""
        return await self._all.get("")

    async def _gather_all(self, _: str) -> list[Facts]:
        found = []
        for name in (await self.names())[:MOST_JOBS]:
            try:
                found.append(await self._of(await self._seen.get(name)))
            except (NoSuchJobError, CommandRefusedError):
                continue  # gone meanwhile, or another program's keys
        return found

    def _check(self, job: str) -> None:
        if self.only and job != self.only:
            raise NoSuchJobError(f"no job {job!r} here: this is the page of job {self.only!r}")

    async def _list(self, _: str) -> list[str]:
        return await _soon(job_names(self.store))

    async def _look(self, job: str) -> Overview:
        """What etcd has; while it is away what it had, if the job is led here."""
        try:
            seen = await _soon(overview(self.store, job))
        except EtcdLostError:
            if job in self._last and self.led(job) is not None:
                return self._last[job]
            raise
        self._last = {name: last for name, last in self._last.items() if self.led(name)} | {job: seen}
        return seen

    async def _of(self, seen: Overview) -> Facts:
        term = self.led(seen.job)
        live: Live = await status_aside(term) if term is not None else "led elsewhere"
        return Facts(self.clock.wall(), seen, live, term is not None)

    async def _gather(self, job: str) -> Facts:
        seen = await self._seen.get(job)
        facts = await self._of(seen)
        if facts.here:
            return facts
        live: Live = "no leader"
        if seen.leader is not None and seen.leader.address and not seen.over:
            try:
                live = await live_status(seen.leader, job, self._security, PATIENCE)
            except UsageError as error:
                live = str(error)
        return Facts(self.clock.wall(), seen, live)


async def _soon(asked: Awaitable[T]) -> T:
    try:
        return await within(PATIENCE, asked)
    except asyncio.TimeoutError:
        raise EtcdLostError(f"etcd does not answer within {PATIENCE:.0f} s") from None
