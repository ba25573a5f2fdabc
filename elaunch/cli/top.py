"""``elaunch top``: jobs as they are, live, on a terminal; elsewhere a line for each change."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from elaunch.cli import show, top_view
from elaunch.cli.table import plain
from elaunch.cli.top_source import Source
from elaunch.cli.top_terminal import Terminal
from elaunch.controller.survey import GONE
from elaunch.errors import ElaunchError
from elaunch.rendezvous.records import Phase

_PATIENCE = 10.0  # seconds without any answer after which there is nothing to wait for
_SHARE = 5  # of the time at most one part is spent on looking
_OVER = (GONE, *(phase.value for phase in Phase if phase.final))
_MANY = ("rank_progress", "events")  # of a document, which say more than what has changed
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Until the job is over, or somebody ends it; the exit code. Raises ElaunchError."""
    drawn = sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb" and not (arguments.plain or arguments.json)
    async with Source(arguments, environ) as source:
        face = Face(source, arguments, environ)
        await face.look()  # what cannot be seen at all is an error before the screen is taken
        return await (face.draw() if drawn else face.tell())


class Face:
    """What was seen last, and how it is shown."""

    def __init__(self, source: Source, arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._source = source
        self._arguments = arguments
        self._environ = environ
        self._documents: list[dict[str, Any]] = []
        self._error = ""
        self._heard = self._took = 0.0
        self._wake = asyncio.Event()
        self._quit: int | None = None

    @property
    def _job(self) -> dict[str, Any] | None:
        """The one that is shown with all that is known of it."""
        wanted = self._arguments.job is not None or len(self._documents) == 1
        return self._documents[0] if wanted and self._documents else None

    @property
    def _over(self) -> bool:
        named = self._arguments.job is not None and self._documents
        return bool(named) and self._documents[0]["phase"] in _OVER

    async def look(self) -> None:
        """Look again. What was seen before stays where there is no answer, for a while. Raises ElaunchError."""
        began = time.monotonic()
        try:
            self._documents = await self._source.look(self._arguments.job)
            self._heard, self._error = time.monotonic(), "; ".join(self._source.silent)
        except ElaunchError as error:
            gone = bool(self._heard) and self._source.gone(self._arguments.job)
            if not self._heard or (not gone and time.monotonic() - self._heard > _PATIENCE):
                raise
            self._error = "its last agent here has ended, and its etcd with it" if gone else str(error)
            if gone:
                self._quit = 0
        self._took = time.monotonic() - began

    @property
    def _rest(self) -> float:
        """Seconds between two looks."""
        return max(float(self._arguments.interval), self._took * _SHARE)

    async def _pause(self, seconds: float, *looking: asyncio.Task[None]) -> None:
        """Until there is something new to be shown, for so long at most."""
        self._wake.clear()
        self._source.news.clear()
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._wake, self._source.news)]
        try:
            await asyncio.wait([*waiting, *looking], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def tell(self) -> int:
        """A line for each change."""
        told: dict[str, tuple[Any, ...]] = {}
        upto: dict[str, int] = {}
        while True:
            for document in self._documents:
                if self._over:
                    self._source.follow(document["job"])
                    await self._source.followed(document["job"], _PATIENCE)
                self._tell_events(document["job"], upto)
                self._tell_change(document, told)
            if self._over or self._quit is not None:
                return 0
            await self._pause(self._rest)
            await self.look()

    def _tell_events(self, job: str, upto: dict[str, int]) -> None:
        for line in list(self._source.follow(job)):
            if line.seq > upto.get(job, -1):
                upto[job] = line.seq
                named = "" if self._arguments.job is not None else f"{job}: "
                print(show.event(line, as_json=True) if self._arguments.json else named + show.event(line), flush=True)

    def _tell_change(self, document: dict[str, Any], told: dict[str, tuple[Any, ...]]) -> None:
        step = document["checkpoint"]["step"] if document["checkpoint"] else None
        now = (top_view.headline(document), top_view.reason(document), step, document["live_error"])
        if told.get(document["job"]) == now:
            return
        told[document["job"]] = now
        if self._arguments.json:
            print(json.dumps({name: value for name, value in document.items() if name not in _MANY}), flush=True)
            return
        parts = [now[0], *([f"checkpoint at step {step}"] if step is not None else []), now[1]]
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        print(plain(f"{moment}  {'; '.join(filter(None, parts))}".replace("\n", " ")), flush=True)

    async def draw(self) -> int:
        """The whole screen, until q; the last headline stays behind."""
        loop = asyncio.get_running_loop()
        with Terminal() as terminal:
            looking = asyncio.ensure_future(self._looking())
            try:
                self._listen(loop, terminal)
                while self._quit is None:
                    self._show(terminal)
                    await self._pause(1.0, looking)
                    self._quit = 1 if looking.done() and self._quit is None else self._quit
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                self._deafen(loop, terminal)
        if looking.done() and not looking.cancelled() and (error := looking.exception()) is not None:
            raise error
        if (job := self._job) is not None and self._quit == 0:
            print(plain(top_view.headline(job)), flush=True)
            if self._error:
                print(plain(self._error), file=sys.stderr, flush=True)
        return self._quit or 0

    async def _looking(self) -> None:
        while not self._over and self._quit is None:
            await asyncio.sleep(self._rest)
            await self.look()
            self._wake.set()
        self._quit = self._quit or 0
        self._wake.set()

    def _show(self, terminal: Terminal) -> None:
        width, height = terminal.size
        now, job = time.time(), self._job
        if job is not None:
            events = [(line.time, line.code, line.text) for line in self._source.follow(job["job"])]
            view = top_view.job_view(job, events, self._error, height, now)
        else:
            view = top_view.jobs_view(self._documents, self._error, height, now)
        terminal.draw(top_view.screen(view, width - 1, height, self._environ))

    def _listen(self, loop: asyncio.AbstractEventLoop, terminal: Terminal) -> None:
        if terminal.keys >= 0:
            loop.add_reader(terminal.keys, self._key, terminal.keys)
        for signum in _STOPPING:
            loop.add_signal_handler(signum, self._end, 128 + signum)
        loop.add_signal_handler(signal.SIGWINCH, self._resized, terminal)
        loop.add_signal_handler(signal.SIGTSTP, self._stopped, terminal)

    def _deafen(self, loop: asyncio.AbstractEventLoop, terminal: Terminal) -> None:
        if terminal.keys >= 0:
            loop.remove_reader(terminal.keys)
        for signum in (*_STOPPING, signal.SIGWINCH, signal.SIGTSTP):
            loop.remove_signal_handler(signum)

    def _key(self, fd: int) -> None:
        try:
            keys = os.read(fd, 64)
        except OSError:
            keys = b""
        if not keys or b"q" in keys.lower() or b"\x04" in keys:
            self._end(0)

    def _end(self, code: int) -> None:
        self._quit = code if self._quit is None else self._quit
        self._wake.set()

    def _resized(self, terminal: Terminal) -> None:
        terminal.forget()
        self._wake.set()

    def _stopped(self, terminal: Terminal) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, and ``fg`` brings ours back."""
        terminal.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        terminal.enter()
        self._wake.set()
