"""What systemd is told of a service (``Type=notify``): that it is ready, that it is alive, that it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping

SOCKET_VARIABLE = "NOTIFY_SOCKET"
_PERIOD_VARIABLE = "WATCHDOG_USEC"
_PROCESS_VARIABLE = "WATCHDOG_PID"
_PATIENCE = 0.5  # seconds
_LONGEST = 15  # digits of a period, which then is one of decades
_SIGNS = 3  # of life in the time after which systemd takes the service for dead


class Service:
    """The one who started this process, if that wants to hear of it; without one everything here does nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get(SOCKET_VARIABLE, "")
        self._period = _period(environ)

    def say(self, *lines: str, patience: float = 0.0) -> None:
        """Tell it lines such as ``READY=1``. One that does not listen costs nothing: this is for its good, not ours.

        One that is busy has up to ``patience`` seconds to make room for what is said only once.
        """
        if not self._address.startswith(("/", "@")):
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(patience)
            sending.sendto("\n".join(" ".join(line.split()) for line in lines).encode(errors="replace"), address)

    def ready(self, status: str) -> None:
        """From now on it does its work; ``status`` is one line for a person."""
        self.say("READY=1", f"STATUS={status}", patience=_PATIENCE)

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Give signs of life from this loop, which a loop that hangs does not, and at last say that it ends."""
        beating = asyncio.create_task(self._beat()) if self._period and self._address else None
        try:
            yield
        finally:
            if beating is not None:
                beating.cancel()
            self.say("STOPPING=1", patience=_PATIENCE)

    async def _beat(self) -> None:
        while True:
            self.say("WATCHDOG=1")
            await asyncio.sleep(self._period / _SIGNS)


def _period(environ: Mapping[str, str]) -> float:
    """Seconds; 0 where no signs of life are asked of this very process."""
    text, process = environ.get(_PERIOD_VARIABLE, ""), environ.get(_PROCESS_VARIABLE, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST) or (process and process != str(os.getpid())):
        return 0.0
    return int(text) / 1e6
