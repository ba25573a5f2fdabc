"""The leader's end of the control streams: for each attached node the newest command, sent when it changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from elaunch.controller.commands import Aside, Command, End, Request
from elaunch.reports import Receipts


@dataclass(slots=True)
class Outbox:
    """The command that one node should have; a newer one replaces an older one that was not sent yet."""

    node_id: str
    closed: str = ""
    _command: Command | None = None
    _sent: Command | None = None
    _requests: list[Aside] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, command: Command) -> None:
        """Send ``command`` unless the node has it already."""
        if command != self._command:
            self._command = command
            self._news.set()

    def ask(self, request: Request) -> None:
        """Send ``request`` beside the command, once on this stream."""
        if request.id not in self._asked:
            self._asked.add(request.id)
            self._requests.append(request)
            self._news.set()

    def answer(self, receipts: Receipts) -> None:
        """Send ``receipts`` beside the command."""
        self._requests.append(receipts)
        self._news.set()

    def close(self, why: str) -> None:
        """End the stream, telling ``why``."""
        self.closed = self.closed or why
        self._news.set()

    async def next(self) -> Command | Aside | None:
        """The next thing to send, or None when the stream is to end: never before the end of the job is told."""
        while not self.closed or isinstance(self._command, End):
            if self._command is not None and self._command != self._sent:
                self._sent = self._command
                return self._command
            if self.closed:
                break
            if self._requests:
                return self._requests.pop(0)
            self._news.clear()
            await self._news.wait()
        return None
