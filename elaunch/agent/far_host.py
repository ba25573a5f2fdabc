"""One host that is reached by ssh: from the first knock until nothing more is heard of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from elaunch.agent.far_lines import Lines, Printer, prefixed
from elaunch.errors import ElaunchError
from elaunch.hosts.ending import Ended
from elaunch.hosts.host_file import Host
from elaunch.hosts.words import BEAT, Hello, Order, order_line, read_end, read_hello, signal_line
from elaunch.rendezvous.waiting import within

GREETING = 60.0  # seconds from the connection until Python has started there, from a slow file system maybe
_LAST_WORDS = 5.0  # seconds for what is still in the pipes when ssh has ended
_KEPT = 20  # lines


class UnreachedError(ElaunchError):
    """A host that cannot be reached, or where elaunch cannot be started; the text says why, without the host."""

    exit_code = 75
    code = "unreached"


class FarHost:
    """``command`` leads to ``host``; what ssh says of itself comes to be in the file ``log``."""

    def __init__(self, host: Host, command: Sequence[str], nonce: str, log: Path) -> None:
        self.host = host
        self._command = command
        self._nonce = nonce
        self._log = log
        self._last: deque[str] = deque(maxlen=_KEPT)
        self._code: int | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def open(self, timeout: float) -> Hello:
        """Connect, within ``timeout`` seconds and those that Python takes to start. Raises UnreachedError."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Ctrl-C at the terminal is for this process, which hands it on.
                start_new_session=True,
            )
        except OSError as error:
            raise UnreachedError(f"{self._command[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = Lines(self._process.stdout), Lines(self._process.stderr)
        try:
            return await within(timeout + GREETING, self._greeting())
        except asyncio.TimeoutError:
            await self.close()
            seconds = timeout + GREETING
            raise UnreachedError(f"ssh came through, but elaunch did not answer within {seconds:.0f} s") from None

    async def _greeting(self) -> Hello:
        errors = asyncio.ensure_future(self._keep_errors())
        try:
            while lines := await self._out.next():
                for line in lines:
                    if hello := read_hello(self._nonce, line):
                        return hello
            await asyncio.wait([errors], timeout=_LAST_WORDS)
        finally:
            errors.cancel()
        raise UnreachedError(await self._why())

    async def _keep_errors(self) -> None:
        while lines := await self._err.next():
            self._last.extend(line.decode(errors="replace").strip() for line in lines)

    async def follow(self, order: Order, prefix: str, out: Printer, err: Printer) -> Ended:
        """Give the order, show what is printed there, and say how it ended."""
        assert self._process is not None
        self._write(order_line(order))
        pumps = [asyncio.ensure_future(self._show_out(prefix, out)), asyncio.ensure_future(self._show(prefix, err))]
        try:
            await self._process.wait()
            while (await asyncio.wait(pumps, timeout=_LAST_WORDS))[1] and (out.busy or err.busy):
                continue  # the console does not read; what is behind that, the exit code too, is not lost
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        if self._code is not None:
            return Ended(self.host.label, self._code)
        return Ended(self.host.label, lost=await self._why())

    async def _show_out(self, prefix: str, out: Printer) -> None:
        while lines := await self._out.next():
            await out.write(
                prefixed(prefix, [shown for line in lines if (shown := self._without_end(line)) is not None])
            )

    def _without_end(self, line: bytes) -> bytes | None:
        """None for the line that only says how the agent ended."""
        end = read_end(self._nonce, line)
        if end is None:
            return line
        before, self._code = end
        return before or None

    async def _show(self, prefix: str, err: Printer) -> None:
        while lines := await self._err.next():
            await err.write(prefixed(prefix, lines))

    async def _why(self) -> str:
        """Why nothing more is heard of it: ssh's own last line, else how it ended."""
        assert self._process is not None
        code = await self._process.wait()
        if said := self._said():
            return said
        if code < 0:
            return f"the ssh process was ended by {signal.Signals(-code).name}"
        last = f": {self._last[-1]}" if self._last else ""
        if code == 255:
            return f"ssh ended with 255{last}"
        return f"elaunch was not started there, exit code {code}{last}"

    def _said(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        told = [line.strip() for line in lines if line.strip() and not line.startswith("Warning: Permanently added")]
        return told[-1] if told else ""

    def beat(self) -> None:
        self._write(BEAT)

    def signal(self, signum: signal.Signals) -> None:
        """Hand a signal to the agent there."""
        self._write(signal_line(signum.name))

    def _write(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(data)

    async def close(self) -> None:
        """Have the far end hear nobody any more, and wait no longer for it."""
        if self._process is None or self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        try:
            await within(_LAST_WORDS, self._process.wait())
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
