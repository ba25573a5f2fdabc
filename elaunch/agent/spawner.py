"""The agent's end of the spawner process: start ranks, hear of their exits, stop them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from elaunch.agent import trees
from elaunch.agent.deadman import DeadlinePage
from elaunch.agent.program import Program
from elaunch.agent.protocol import Channel, Message
from elaunch.agent.start import RankStart
from elaunch.errors import StartError
from elaunch.rendezvous.waiting import within

__all__ = ["STORE", "Exit", "Program", "RankStart", "Spawner"]

STORE = -1
"""Stands for a local rank in the ``Exit`` of the store's host."""

_REPLY_SECONDS = 30.0
_KILL_BOUND_SECONDS = 10.0
_IMPORT_SECONDS = 600.0
_ROOM = " " * 1024  # a forked rank's command line is written over the spawner process's


@dataclass(frozen=True, slots=True)
class Exit:
    """A rank has ended. ``exit_code`` is -n for signal n, ``time`` in seconds since the epoch."""

    local_rank: int
    pid: int
    exit_code: int
    time: float


def _say_nothing(text: str) -> None:
    pass


def _nothing() -> Collection[int]:
    return ()


class Spawner:
    """The spawner process of this agent, and through it the ranks of one generation at a time.

    ``lost`` is set when the process has died other than by ``close``; everything that was asked of it then
    raises StartError, and all that it had started is killed. ``deadline_passed`` is set when the dead-man's
    switch has acted.
    """

    _running: ClassVar[set[int]] = set()  # of this agent: one may be opened while another is cleaned up after

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: Channel,
        note: Callable[[str], None],
        spare: Callable[[], Collection[int]],
    ) -> None:
        self.lost = asyncio.Event()
        self.deadline_passed = asyncio.Event()
        self._process = process
        self._channel = channel
        self._note = note
        self._spare = spare
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()
        self._writing = False
        self._cleaning: asyncio.Task[None] | None = None
        self._loop.add_reader(channel.fileno(), self._readable)
        self._running.add(process.pid)

    @classmethod
    async def open(
        cls,
        *,
        start: Literal["warm", "exec"],
        preload: Sequence[str],
        env: Mapping[str, str],
        deadline: DeadlinePage,
        farewell: Sequence[str] = (),
        farewell_env: Mapping[str, str] | None = None,
        note: Callable[[str], None] = _say_nothing,
        spare: Callable[[], Collection[int]] = _nothing,
    ) -> Spawner:
        """Start the spawner process and return at once; what it imports goes on.

        ``env`` is the ranks' environment but for what differs between ranks. ``farewell`` is run, with
        ``farewell_env`` (``env`` where None), when the agent has died and its ranks have been killed.
        ``note`` is told in one sentence when a rank had to be exec'd though the start is warm. ``spare``
        gives the pids of the agent's other children, which are no strays of the ranks. Raises StartError.
        """
        trees.become_subreaper()
        mine, theirs = socket.socketpair()
        try:
            process = _start_process(start, preload, env, theirs.fileno(), deadline.fd)
        except OSError as error:
            mine.close()
            raise StartError(f"cannot start the spawner process: {error}") from error
        finally:
            theirs.close()
        spawner = cls(process, Channel(mine), note, spare)
        if farewell:
            spawner._send(
                {
                    "op": "farewell",
                    "argv": list(farewell),
                    "env": dict(env if farewell_env is None else farewell_env),
                }
            )
        return spawner

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def was_ready(self) -> bool:
        """Whether it ever came so far that ranks could be started."""
        return self._ready.done() and self._ready.exception() is None

    async def ready(self) -> None:
        """Wait until ranks can be started. Raises StartError if torch or a preload cannot be imported."""
        try:
            await within(_IMPORT_SECONDS, asyncio.shield(self._ready))
        except asyncio.TimeoutError:
            raise StartError(f"the spawner process was not ready within {_IMPORT_SECONDS:.0f} s") from None

    async def start_store(self, listener: socket.socket, world_size: int) -> None:
        """Start the store's host on a listening socket, which is closed here. Raises StartError."""
        await self.start((), listener, world_size)

    async def start_ranks(self, ranks: Sequence[RankStart]) -> dict[int, int]:
        """Start ranks; returns pids by local rank. Raises StartError, and then none of them is left."""
        return await self.start(ranks, None, 0)

    async def start(
        self, ranks: Sequence[RankStart], listener: socket.socket | None, world_size: int
    ) -> dict[int, int]:
        """``start_store``, if there is a listener, and ``start_ranks`` in one round trip."""
        await self.ready()
        message: Message = {
            "op": "start",
            "ranks": [start.to_json() for start in ranks],
            "world_size": world_size if listener is not None else None,
        }
        fds = (listener.fileno(),) if listener is not None else ()
        try:
            reply = await self._ask(message, _REPLY_SECONDS, fds)
        finally:
            if listener is not None:
                listener.close()
        if "error" in reply:
            raise StartError(f"cannot start the ranks: {reply['error']}")
        for note in reply["notes"]:
            self._note(note)
        return {int(local_rank): pid for local_rank, pid in reply["pids"].items()}

    def exits(self) -> asyncio.Queue[Exit]:
        """Where the exits arrive, in order; the store's own only when nobody asked for it."""
        return self._exits

    async def signal(self, signum: int) -> None:
        """Send a signal to every live rank."""
        await self._ask({"op": "signal", "signum": int(signum)}, _REPLY_SECONDS)

    async def stop(self, *, signum: int, grace: float) -> None:
        """Stop all that was started, whole trees and the store: ``signum``, ``grace`` seconds, SIGKILL.

        Returns when all of it is gone, killed where the spawner process died meanwhile or does not answer. What
        is stopped or traced gets SIGKILL at once. Raises StartError if something outlives SIGKILL
        (uninterruptible sleep).
        """
        if not self._ready.done():
            return  # nothing starts before it is ready, and it hears nothing while it imports
        message = {"op": "stop", "signum": int(signum), "grace": grace}
        try:
            reply = await self._ask(message, grace + 2 * _KILL_BOUND_SECONDS)
        except StartError:
            self._kill_process()
            await self._gone()
            return
        if reply["left"]:
            pids = ", ".join(map(str, reply["left"]))
            raise StartError(f"processes {pids} are still there {_KILL_BOUND_SECONDS:.0f} s after SIGKILL")

    async def close(self) -> None:
        """End the spawner process and everything below it; no farewell is said."""
        if self._ready.done() and not self.lost.is_set():
            self._send({"op": "close"})
            with contextlib.suppress(asyncio.TimeoutError):
                await within(2 * _KILL_BOUND_SECONDS, self.lost.wait())
        self._kill_process()
        await self._gone()

    async def _ask(self, message: Message, seconds: float, fds: tuple[int, ...] = ()) -> Message:
        if self.lost.is_set():
            raise StartError("the spawner process has died")
        number = next(self._ids)
        reply: asyncio.Future[Message] = self._loop.create_future()
        self._replies[number] = reply
        try:
            self._send({**message, "id": number}, fds)
            return await within(seconds, reply)
        except asyncio.TimeoutError:
            raise StartError(f"the spawner process did not answer {message['op']!r} in {seconds:.0f} s") from None
        finally:
            self._replies.pop(number, None)

    def _send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        self._channel.send(message, fds)
        self._write_later()

    def _write_later(self) -> None:
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
            self._on_lost()

    def _on_event(self, message: Message) -> None:
        event = message["event"]
        if event == "ready" and not self._ready.done():
            self._ready.set_result(None)
        elif event == "failed":
            self._fail_ready(f"the spawner process cannot import what it should: {message['text']}")
        elif event == "deadline":
            self.deadline_passed.set()
        elif event == "exit":
            self._exits.put_nowait(_exit(message))

    def _on_lost(self) -> None:
        self._loop.remove_reader(self._channel.fileno())
        if self._writing:
            self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        self._fail_ready("the spawner process has died")
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(StartError("the spawner process has died"))
        self.lost.set()

    def _fail_ready(self, text: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(StartError(text))
            self._ready.exception()  # retrieved: nobody may be waiting

    def _kill_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _gone(self) -> None:
        """Wait until the process and all that it left are gone; whoever asks shares one cleaning."""
        if self._cleaning is None:
            self._cleaning = self._loop.create_task(self._clean_up())
        await asyncio.shield(self._cleaning)

    async def _clean_up(self) -> None:
        """Wait for the process's end, then kill what it left: ranks die with it, their strays come to us."""
        try:
            await asyncio.to_thread(self._process.wait, _KILL_BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            raise StartError(f"the spawner process {self.pid} outlives SIGKILL") from None
        self._running.discard(self.pid)
        left = await asyncio.to_thread(trees.kill_all, self._strays, _KILL_BOUND_SECONDS)
        if left:
            pids = ", ".join(str(p.pid) for p in left)
            raise StartError(f"processes {pids} are still there {_KILL_BOUND_SECONDS:.0f} s after SIGKILL")

    def _strays(self) -> list[trees.Process]:
        return trees.below(os.getpid(), spare={*self._spare(), *self._running})


def _exit(message: Message) -> Exit:
    return Exit(message["local_rank"], message["pid"], message["exit_code"], message["time"])


def _start_process(
    start: str, preload: Sequence[str], env: Mapping[str, str], sock: int, page: int
) -> subprocess.Popen[bytes]:
    program = Path(__file__).with_name("spawner_process.py")
    argv: list[Any] = [sys.executable, "-u", program, str(sock), str(page), start, *preload, _ROOM]
    return subprocess.Popen(argv, env=dict(env), pass_fds=(sock, page), start_new_session=True)
