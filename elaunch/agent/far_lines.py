"""What other hosts print, line by line, each with its host before it, to standard output and error."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

from elaunch.agent.console import Writable

_PIECE = 65_536
_MOST = 65_536  # bytes that a line without an end is waited for


class Lines:
    """The lines of a pipe, without their ends, as many at once as are there. One that is too long comes in pieces."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._held = b""

    async def next(self) -> list[bytes]:
        """Waits for at least one; none at the end."""
        while data := await self._stream.read(_PIECE):
            *whole, self._held = (self._held + data).split(b"\n")
            if len(self._held) > _MOST:
                whole.append(self._held)
                self._held = b""
            if whole:
                return whole
        rest, self._held = self._held, b""
        return [rest] if rest else []


class Printer:
    """Writes to a console that may be slow, or stuck: only who waits for what it has written is held up by it."""

    def __init__(self, console: Writable) -> None:
        self._console = console
        self._waiting = 0
        self._texts: queue.SimpleQueue[tuple[str, Callable[[], None]]] = queue.SimpleQueue()
        # A daemon, as nothing may hold up the end of the process.
        threading.Thread(target=self._run, name="printer", daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for what it has written."""
        return self._waiting > 0

    async def write(self, text: str) -> None:
        """Back when it is written."""
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        self._texts.put((text, lambda: _tell(loop, written)))
        self._waiting += 1
        try:
            await written.wait()
        finally:
            self._waiting -= 1

    def _run(self) -> None:
        while True:
            text, done = self._texts.get()
            self._console.write(text)
            self._console.flush()
            done()


def _tell(loop: asyncio.AbstractEventLoop, written: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(written.set)


def prefixed(prefix: str, lines: list[bytes]) -> str:
    return "".join(f"{prefix}{line.decode(errors='replace')}\n" for line in lines)
