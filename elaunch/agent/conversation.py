"""The agent's end of the socket to its spawner process: orders and their answers, and what it tells unasked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from elaunch.agent.protocol import Channel, Message
from elaunch.errors import StartError
from elaunch.rendezvous.waiting import within


class Conversation:
    """``lost`` is set when the other end is gone: then ``on_lost`` is called, and who waits gets StartError."""

    def __init__(self, channel: Channel, on_event: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self.lost = asyncio.Event()
        self._channel = channel
        self._on_event = on_event
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._writing = False
        self._loop.add_reader(channel.fileno(), self._readable)

    async def ask(self, message: Message, seconds: float, fds: tuple[int, ...] = ()) -> Message:
        """The answer to an order. Raises StartError where none comes within ``seconds``, or can come any more."""
        if self.lost.is_set():
            raise StartError("the spawner process has died")
        number = next(self._ids)
        reply: asyncio.Future[Message] = self._loop.create_future()
        self._replies[number] = reply
        try:
            self.send({**message, "id": number}, fds)
            return await within(seconds, reply)
        except asyncio.TimeoutError:
            raise StartError(f"the spawner process did not answer {message['op']!r} in {seconds:.0f} s") from None
        finally:
            self._replies.pop(number, None)

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """An order that has no answer."""
        self._channel.send(message, fds)
        if self._channel.unsent and not self._writing:
            self._writing = True
            self._loop.add_writer(self._channel.fileno(), self._writable)

    def _writable(self) -> None:
        self._channel.flush()
        if not self._channel.unsent:
            self._writing = False
            self._loop.remove_writer(self._channel.fileno())

    def _readable(self) -> None:
        for message in self._channel.receive():
            if "event" in message:
                self._on_event(message)
            elif (reply := self._replies.get(message["id"])) and not reply.done():
                reply.set_result(message)
        if self._channel.eof:
            self._ended()

    def _ended(self) -> None:
        self._loop.remove_reader(self._channel.fileno())
        if self._writing:
            self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        self._on_lost()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(StartError("the spawner process has died"))
        self.lost.set()
