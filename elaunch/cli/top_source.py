"""What ``elaunch top`` shows, looked at again and again: jobs from etcd, what their leaders know, what happens."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

from elaunch.cli.documents import status_document
from elaunch.cli.places import Place, opened, places, security_of
from elaunch.controller.chronicle import follow_happenings
from elaunch.controller.operator_client import live_status
from elaunch.controller.survey import job_names, overview
from elaunch.errors import CommandRefusedError, ElaunchError, EndpointUnreachableError, NoSuchJobError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Happening
from elaunch.rendezvous.waiting import cancelled, within

_LEADER = 2.0  # seconds for an answer
_LOOK = 4.0  # seconds for one look at all there is
_KEPT = 200  # events


class Source:
    """``job`` alone, or all jobs that can be found where that is None."""

    def __init__(self, arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environ = environ
        self._security = security_of(arguments, environ)
        self._stores: dict[Place, EtcdStore] = {}
        self._stack = AsyncExitStack()
        self._following: dict[str, asyncio.Task[None]] = {}
        self.events: dict[str, deque[Happening]] = {}
        self.silent: list[str] = []
        self.news = asyncio.Event()

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancelled(*self._following.values())
        await self._stack.aclose()

    async def look(self, job: str | None) -> list[dict[str, Any]]:
        """The documents of the jobs that there are. Raises ElaunchError where there is nothing to be seen."""
        try:
            return await within(_LOOK, self._look(job))
        except asyncio.TimeoutError:
            raise EndpointUnreachableError(f"etcd did not answer within {_LOOK:.0f} s") from None

    def gone(self, job: str | None) -> bool:
        """Whether the agents of ``job`` that were here have left, and with them what is known of it here."""
        try:
            return job is not None and not places(self._arguments, self._environ, job)
        except NoSuchJobError:
            return True

    async def _look(self, job: str | None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        silent: list[str] = []
        for place in places(self._arguments, self._environ, job)[: 1 if job is not None else None]:
            try:
                store = await self._open(place)
                names = [job] if job is not None else await job_names(store)
                seen = await asyncio.gather(*(self._one(store, name, job is None) for name in names))
                found += [document for document in seen if document is not None]
            except ElaunchError as error:
                if job is not None or self._arguments.endpoint:
                    raise
                silent.append(f"no answer from the etcd at {','.join(place.endpoints)}: {error}")
        self.silent = silent
        return found

    async def _open(self, place: Place) -> EtcdStore:
        if place not in self._stores:
            self._stores[place] = await self._stack.enter_async_context(opened(place))
        return self._stores[place]

    async def _one(self, store: EtcdStore, job: str, lenient: bool) -> dict[str, Any] | None:
        try:
            seen = await overview(store, job)
        except (NoSuchJobError, CommandRefusedError):
            if lenient:
                return None  # gone meanwhile, or another program's keys
            raise
        live: Any = "no leader"
        if seen.leader is not None and seen.leader.address and not seen.over:
            live = await live_status(seen.leader, job, self._security, _LEADER)
        return status_document(seen, live, (), time.time())

    def follow(self, job: str) -> deque[Happening]:
        """The last events of a job, from now on kept up to date."""
        lines = self.events.setdefault(job, deque(maxlen=_KEPT))
        task = self._following.get(job)
        if self._stores and (task is None or (task.done() and not task.cancelled() and task.exception() is not None)):
            lines.clear()
            self._following[job] = asyncio.ensure_future(self._follow(job, lines))
        return lines

    async def _follow(self, job: str, lines: deque[Happening]) -> None:
        store = next(iter(self._stores.values()))
        for one in self._stores.values():
            if job in await job_names(one):
                store = one
        async with aclosing(follow_happenings(store, job)) as happening:
            async for line in happening:
                lines.append(line)
                self.news.set()

    async def followed(self, job: str, seconds: float) -> None:
        """Wait until the history of a job that is over has been read to its end, for so long at most."""
        if task := self._following.get(job):
            await asyncio.wait({task}, timeout=seconds)
