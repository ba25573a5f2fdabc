"""The agent's end of the process that holds what an injected fault lasts on (``elaunch.inject.holding``).

One for all faults of the node, as they may be of the same rank or port: none may undo another. It is started with the
first, and ends with the agent, however that ends. Should it be killed itself, the agent undoes what it has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

from elaunch.inject import holding
from elaunch.rendezvous.waiting import within

_END = 5.0  # seconds for it to undo everything


class Holder:
    """``hold`` from any task of one event loop. ``spare`` hears the pid of the process: it is no stray of the ranks."""

    def __init__(self, spare: Callable[[int], None]) -> None:
        self._spare = spare
        self._numbers = itertools.count(1)
        self._holds: dict[int, tuple[dict[str, Any], asyncio.Future[None]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def hold(self, wish: dict[str, Any]) -> None:
        """Returns once it is over and undone; where the task is cancelled before, it is undone as well.

        ``wish`` is a line of ``elaunch.inject.holding`` without its id. Raises OSError where there can be no holder.
        """
        number = next(self._numbers)
        wish = {**wish, "id": number, "files": self._originals(wish.get("files", ()))}
        async with self._starting:
            process = await self._running()
        over = asyncio.get_running_loop().create_future()
        self._holds[number] = wish, over
        self._say(process, wish)
        try:
            await over
        finally:
            if over.cancelled() or not over.done():  # it stays among the holds until it is undone
                self._say(process, {"id": number, "undo": True})

    async def close(self) -> None:
        """Undo everything. Raises asyncio.TimeoutError where that takes too long."""
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        if process.stdin is not None:
            process.stdin.close()  # then it undoes what it did, and ends
        await within(_END, process.wait())
        await within(_END, reader)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            if self._reader is not None:
                await self._reader
            pipe = asyncio.subprocess.PIPE
            argv = [sys.executable, "-S", "-E", str(holding.__file__)]
            self._process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
            self._spare(self._process.pid)
            self._reader = asyncio.create_task(self._hear(self._process))
        return self._process

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            word, _, number = line.decode().partition(" ")
            if word == "over" and (found := self._holds.pop(int(number), None)) is not None:
                _resolve(found[1])
        await process.wait()
        left, self._holds = self._holds, {}
        for wish, over in left.values():  # it was killed: what it held is as it has left it
            holding.undo(wish)
            _resolve(over)

    def _say(self, process: asyncio.subprocess.Process, wish: dict[str, Any]) -> None:
        if process.stdin is not None:
            with contextlib.suppress(ConnectionError):  # it has ended, which its reader sees
                process.stdin.write(json.dumps(wish).encode() + b"\n")

    def _originals(self, files: Any) -> list[list[str]]:
        """As they were before any hold: what is read of a file that is held is what a hold has put there."""
        known = {path: after for wish, _ in self._holds.values() for path, _, after in wish["files"]}
        return [[path, during, known.get(path, after)] for path, during, after in files]


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
