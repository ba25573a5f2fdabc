"""The agent's end of the spawner process: start ranks, hear of their exits, stop them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from elaunch.agent import trees
from elaunch.agent.conversation import Conversation
from elaunch.agent.process import KILL_BOUND_SECONDS, SpawnerProcess, still_there
from elaunch.agent.program import Program
from elaunch.agent.protocol import Channel, Message
from elaunch.agent.start import STORE, Exit, RankStart
from elaunch.deadline_page import DeadlinePage
from elaunch.errors import StartError
from elaunch.rendezvous.waiting import within

__all__ = ["STORE", "Exit", "Program", "RankStart", "Spawner"]

_REPLY_SECONDS = 30.0
_IMPORT_SECONDS = 600.0
_HELD_SECONDS = 1.0  # for so long an answer is awaited from a process that does not run


def _say_nothing(text: str) -> None:
    pass


def _nothing() -> Collection[int]:
    return ()


class Spawner:
    """The spawner process of this agent, and through it the ranks of one generation at a time.

    ``lost`` is set when the process has died other than by ``close``; everything that was asked of it then
    raises StartError, and all that it had started is killed. ``deadline_passed`` is set when the dead-man's
    switch has acted; whoever gave it clears it.
    """

    def __init__(
        self, process: SpawnerProcess, channel: Channel, note: Callable[[str], None], deadline_passed: asyncio.Event
    ) -> None:
        self.deadline_passed = deadline_passed
        self._process = process
        self._talk = Conversation(channel, self._on_event, lambda: self._fail_ready("the spawner process has died"))
        self.lost = self._talk.lost
        self._note = note
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()

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
        deadline_passed: asyncio.Event | None = None,
    ) -> Spawner:
        """Start the spawner process and return at once; what it imports goes on.

        ``env`` is the ranks' environment but for what differs between ranks. ``farewell`` is run, with
        ``farewell_env`` (``env`` where None), when the agent has died and its ranks have been killed.
        ``note`` is told in one sentence when a rank had to be exec'd though the start is warm. ``spare``
        gives the pids of the agent's other children, which are no strays of the ranks. ``deadline_passed`` is the
        event to set where there is one already. Raises StartError.
        """
        trees.become_subreaper()
        mine, theirs = socket.socketpair()
        try:
            process = SpawnerProcess.open(start, preload, env, theirs.fileno(), deadline.fd, spare)
        except StartError:
            mine.close()
            raise
        finally:
            theirs.close()
        spawner = cls(process, Channel(mine), note, deadline_passed or asyncio.Event())
        if farewell:
            told = dict(env if farewell_env is None else farewell_env)
            spawner._talk.send({"op": "farewell", "argv": list(farewell), "env": told})
        return spawner

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger holds the process."""
        return self._process.stopped

    def wake(self) -> None:
        """Have the process go on where a signal has stopped it."""
        self._process.wake()

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
        self, ranks: Sequence[RankStart], listener: socket.socket | None, world_size: int, number: int = 0
    ) -> dict[int, int]:
        """``start_store``, if there is a listener, and ``start_ranks`` in one round trip.

        The exits of what was started carry ``number``.
        """
        await self.ready()
        message: Message = {
            "op": "start",
            "start": number,
            "ranks": [start.to_json() for start in ranks],
            "world_size": world_size if listener is not None else None,
        }
        fds = (listener.fileno(),) if listener is not None else ()
        try:
            reply = await self._talk.ask(message, _REPLY_SECONDS, fds)
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
        await self._talk.ask({"op": "signal", "signum": int(signum)}, _REPLY_SECONDS)

    async def stop(self, *, signum: int, grace: float, deaf: Sequence[int] = ()) -> None:
        """Stop all that was started, whole trees and the store: ``signum``, ``grace`` seconds, SIGKILL.

        Returns when all of it is gone. It is killed where the spawner process died meanwhile or does not answer: soon
        after the grace where that is held itself. What is stopped or traced gets SIGKILL at once, and so do the ranks
        with the pids ``deaf``, to which ``signum`` does nothing. Raises StartError
        if something outlives SIGKILL (uninterruptible sleep).
        """
        if not self._ready.done():
            return  # nothing starts before it is ready, and it hears nothing while it imports
        message = {"op": "stop", "signum": int(signum), "grace": grace, "deaf": list(deaf)}
        asking = asyncio.ensure_future(self._talk.ask(message, grace + 2 * KILL_BOUND_SECONDS))
        try:
            await self._unheld(asking, grace)
            reply = await asking
        except StartError:
            self._process.kill()
            await self._process.gone()
            return
        finally:
            asking.cancel()
        if reply["left"]:
            raise StartError(still_there(reply["left"]))

    async def close(self) -> None:
        """End the spawner process and everything below it; no farewell is said."""
        if self._ready.done() and not self.lost.is_set():
            self._talk.send({"op": "close"})
            ending = asyncio.ensure_future(self.lost.wait())
            try:
                await self._unheld(ending, 0.0)
                await within(2 * KILL_BOUND_SECONDS, ending)
            except (StartError, asyncio.TimeoutError):
                ending.cancel()
        self._process.kill()
        await self._process.gone()

    async def _unheld(self, doing: asyncio.Future[Any], seconds: float) -> None:
        """Wake the process if it is stopped. Raises StartError where it is held when it should have answered."""
        self._process.wake()
        await asyncio.wait([doing], timeout=seconds + _HELD_SECONDS)
        if not doing.done() and self._process.stopped:
            raise StartError("the spawner process is held, by a signal or a debugger")

    def _on_event(self, message: Message) -> None:
        event = message["event"]
        if event == "ready" and not self._ready.done():
            self._ready.set_result(None)
        elif event == "failed":
            self._fail_ready(f"the spawner process cannot import what it should: {message['text']}")
        elif event == "deadline":
            self.deadline_passed.set()
        elif event == "exit":
            self._exits.put_nowait(Exit.from_json(message, switched_off=self.deadline_passed.is_set()))

    def _fail_ready(self, text: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(StartError(text))
            self._ready.exception()  # retrieved: nobody may be waiting
