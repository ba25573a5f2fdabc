"""The process that keeps an embedded etcd, or one member of it: it outlives its agents, and ends with the job.

An agent starts it and stays connected to it; other agents of the host connect too. While one is connected,
etcd is kept. When all are gone, even by SIGKILL, etcd is kept while the job has a node; then keeper and etcd
end, after a grace if somebody left without a word, so that a replacement finds them. They end too when the other
members let this one go (see trio.py), and when no agent is left and the others are lost for long.

A talk: the agent says ``{"job": ...}``, the keeper answers ``{"endpoint": ..., "peer": ...}`` once etcd serves,
or ``{"busy": JOB}``, with ``"in_use"`` while that job has agents here, or ``{"error": TEXT}``. The agent may say
``release``, or ``forsaken`` where the other members are lost, and closes its side. The keeper's side stays open
until it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from elaunch.errors import ElaunchError
from elaunch.parent import wake_when_parent_ends
from elaunch.rendezvous.binary import find_etcd
from elaunch.rendezvous.child import Layout
from elaunch.rendezvous.chronicle import Chronicle
from elaunch.rendezvous.daemon import Daemon
from elaunch.rendezvous.endpoints import credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.order import Order
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.waiting import within

_ASK = 5.0  # seconds between two looks whether the other members are still there, when no agent is
_ASK_LAST = 1.0  # the same, once the job has ended
_ALONE = 60.0  # seconds without a majority of the members after which a keeper without an agent ends
_SILENT = 300.0  # the same where there are no other members: an etcd that is frozen may come back


class Keeper:
    """One keeper's life."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._layout = Layout(Path(order.directory))
        self._store = EtcdStore([order.endpoint, *order.others], credentials=credentials(Tls.of(order.tls)))
        self._daemon = Daemon(order, self._layout, self._store)
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        self._chronicle = Chronicle(order, self._layout, self._store, self._news.set)
        self._agents = 1  # the first, which has started us; agents of other jobs do not count
        self._deserted = False  # an agent left without a word
        self._told_to_stop = False
        self._forsaken = False
        self._ending = False
        self._writers: set[asyncio.StreamWriter] = set()  # open until the end: that is how agents know it

    async def run(self) -> None:
        """Until the job has no use for etcd any more."""
        # Slurm sends it to every process of a step, when the agents still need etcd to end the job in order. etcd
        # itself ends by it, and is started again.
        told = self._stop_soon if "SLURM_JOB_ID" not in os.environ else self._ignore
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told)
        server = await self._listen()
        first = await asyncio.open_unix_connection(sock=socket.socket(fileno=self._order.agent))
        first_talk = asyncio.create_task(self._talk(*first, counted=True))
        watching = []
        try:
            try:
                await self._daemon.start()
                if not self._order.cluster:
                    await self._chronicle.restore()
            except ElaunchError as error:
                self._answer.set_result({"error": str(error)})
                await asyncio.wait({first_talk}, timeout=1.0)
                return
            supervising = self._daemon.supervise(self._may_restart)
            watching = [asyncio.create_task(work) for work in (self._chronicle.follow(), supervising)]
            version, peer = find_etcd().version, self._order.peer
            self._answer.set_result(
                {"endpoint": self._order.endpoint, "version": version, "notice": self._daemon.notice, "peer": peer}
            )
            for task in watching:
                task.add_done_callback(lambda _: self._etcd_ended())
            await self._until_unused()
            for task in watching:
                if task.done():
                    task.result()  # neither ends by itself, but for a bug or an etcd that keeps dying
        finally:
            self._ending = True
            if server is not None:
                server.close()
                self._clear_meeting()
            for task in watching:
                task.cancel()
            await self._end()

    async def _listen(self) -> asyncio.AbstractServer | None:
        if not self._order.meeting:
            return None
        self._clear_meeting()  # of one that was killed: we hold the lock
        return await asyncio.start_unix_server(self._talk, self._order.meeting)

    def _clear_meeting(self) -> None:
        Path(self._order.meeting).unlink(missing_ok=True)

    def _ignore(self) -> None:
        return

    def _stop_soon(self) -> None:
        self._told_to_stop = True
        self._news.set()

    def _etcd_ended(self) -> None:
        if self._chronicle.company.left:  # as it should
            self._news.set()
        else:
            self._stop_soon()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False) -> None:
        """One agent, from its first word until it is gone."""
        if self._ending:
            writer.close()
            return
        released = True
        self._writers.add(writer)
        try:
            request = json.loads(await reader.readline() or "{}")
            if request.get("job") != self._order.job:
                answer = {"busy": self._order.job, **({"in_use": "yes"} if self._agents else {})}
                writer.write(json.dumps(answer).encode() + b"\n")
                self._let_go(writer)
                return
            released = False
            self._agents += not counted
            counted = True
            writer.write(json.dumps(await self._answer).encode() + b"\n")
            while word := await reader.readline():
                released = released or word in (b"release\n", b"forsaken\n")
                self._forsaken = self._forsaken or word == b"forsaken\n"
        except (ConnectionError, ValueError):
            pass  # an agent that is gone
        else:
            self._let_go(writer)
        finally:
            if counted:  # else it is a visitor, who may not hold up the end by asking again and again
                self._agents -= 1
                self._deserted = self._deserted or not released
                self._news.set()

    def _let_go(self, writer: asyncio.StreamWriter) -> None:
        """Nobody is at the other end any more, or is to be."""
        self._writers.discard(writer)
        writer.close()

    async def _may_restart(self) -> bool:
        """Whether an etcd that has ended may go on with its data."""
        if not self._chronicle.company.several:
            return True
        # What a killed member of some versions has lost the others would not tell it: a new one takes its place.
        sound = find_etcd().sound or self._daemon.ended_in_order
        return not await self._chronicle.let_go() and sound

    async def _until_unused(self) -> None:
        silent_since: float | None = None
        while not self._told_to_stop and not self._chronicle.company.left:
            self._news.clear()
            try:
                await within(self._patience(), self._news.wait())
            except asyncio.TimeoutError:
                if self._agents == 0 and not self._chronicle.nodes:
                    return
                if await self._chronicle.answers():
                    silent_since, self._forsaken = None, False
                    continue
                if self._chronicle.final:  # the others have ended before they could say that the last node is gone
                    return
                silent_since = silent_since or time.monotonic()
                if self._forsaken or time.monotonic() - silent_since > self._bound():
                    print("etcd does not answer, and no agent is left", file=sys.stderr, flush=True)
                    self._told_to_stop = True

    def _patience(self) -> float | None:
        """For how many seconds news are waited for until this keeper looks whether it is of use; None: for ever."""
        final = self._chronicle.final
        if self._agents:
            return None
        if not self._chronicle.nodes:
            return self._order.grace if self._deserted and not final else 0.0
        # Nothing else tells that the others are lost, or that etcd is frozen.
        return 0.0 if self._forsaken else _ASK_LAST if final else _ASK

    def _bound(self) -> float:
        """For how many seconds etcd may be silent when no agent is left here; a disposable one serves no other host."""
        return _ALONE if self._chronicle.company.several or self._order.disposable else _SILENT

    async def _end(self) -> None:
        """Stop etcd. Its data go only if the job ended cleanly and its state is saved, or it is no member any more."""
        clean = not self._told_to_stop and self._answer.done() and "endpoint" in self._answer.result()
        try:
            clean = clean and await self._chronicle.keep_last()
            await self._store.close()
        finally:
            await self._daemon.stop()
        if self._order.disposable and self._answer.done():
            shutil.rmtree(self._layout.directory, ignore_errors=True)
        elif clean:
            shutil.rmtree(self._layout.data, ignore_errors=True)
            self._chronicle.company.saved.forget()


async def _keep(order: Order) -> None:
    await Keeper(order).run()


def main() -> None:
    """``python -m elaunch.rendezvous.keeper ORDER``; started by :mod:`elaunch.rendezvous.hiring` only."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    wake_when_parent_ends()
    asyncio.run(_keep(Order.decode(sys.argv[1])))


if __name__ == "__main__":
    main()
