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
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elaunch.errors import AmbiguousError, CompactedError, ElaunchError, EndpointUnreachableError
from elaunch.rendezvous import child
from elaunch.rendezvous.binary import find_etcd
from elaunch.rendezvous.child import NEEDED_SPACE, Layout, Quarters
from elaunch.rendezvous.company import Company
from elaunch.rendezvous.endpoints import credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.home import SavedMembers, SavedState
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import State, decode, encode
from elaunch.rendezvous.store import KeyValue, Put, absent
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio import MemberList
from elaunch.rendezvous.waiting import within

_START_TIMEOUT = 15.0  # seconds for etcd to serve
_RESTARTS = 3  # of an etcd that was killed
_ASK = 5.0  # seconds between two looks whether the other members are still there, when no agent is
_ANSWER = 4.0  # seconds for an answer: longer than it takes to elect another leader
_ALONE = 60.0  # seconds without a majority of the members after which a keeper without an agent ends


@dataclass(frozen=True, slots=True)
class Order:
    """What the first agent asks for. ``grace`` is in seconds; ``agent`` and ``keep_open`` are inherited.

    ``tls`` are the paths of a :class:`Tls`. ``others`` is where clients connect of the cluster that this member joins.
    """

    job: str
    directory: str
    listen: tuple[str, ...]
    endpoint: str
    disposable: bool
    meeting: str
    grace: float
    agent: int
    keep_open: tuple[int, ...]
    tls: tuple[str, ...] = ()
    peer: str = ""
    listen_peer: str = ""
    cluster: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def quarters(self) -> Quarters:
        endpoint = self.endpoint if self.peer else ""
        return Quarters(self.listen, endpoint, self.listen_peer, self.peer, self.cluster, Tls.of(self.tls))

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Order:
        values: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})


class Keeper:
    """One keeper's life."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._layout = Layout(Path(order.directory))
        self._saved = SavedState(self._layout.directory / "state.json")
        self._keys = JobKeys(order.job)
        self._tls = Tls.of(order.tls)
        self._store = EtcdStore([order.endpoint, *order.others], credentials=credentials(self._tls))
        self._company = Company(order.peer, SavedMembers(self._layout.members), bool(order.cluster))
        self._etcd: subprocess.Popen[bytes] | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        self._agents = 1  # the first, which has started us; agents of other jobs do not count
        self._deserted = False  # an agent left without a word
        self._nodes: set[str] = set()
        self._final = False
        self._told_to_stop = False
        self._saved_last = True
        self._forsaken = False
        self._cluster = 0
        self._notice = ""
        self._ending = False
        self._writers: list[asyncio.StreamWriter] = []  # open until the end: that is how agents know it

    async def run(self) -> None:
        """Until the job has no use for etcd any more."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop_soon)
        server = await self._listen()
        first = await asyncio.open_unix_connection(sock=socket.socket(fileno=self._order.agent))
        first_talk = asyncio.create_task(self._talk(*first, counted=True))
        watching = []
        try:
            try:
                await self._start()
            except ElaunchError as error:
                self._answer.set_result({"error": str(error)})
                await asyncio.wait({first_talk}, timeout=1.0)
                return
            watching = [asyncio.create_task(work) for work in (self._follow(), self._supervise())]
            version, peer = find_etcd().version, self._order.peer
            self._answer.set_result(
                {"endpoint": self._order.endpoint, "version": version, "notice": self._notice, "peer": peer}
            )
            for task in watching:
                task.add_done_callback(lambda _: self._stop_soon())
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

    def _stop_soon(self) -> None:
        self._told_to_stop = True
        self._news.set()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False) -> None:
        """One agent, from its first word until it is gone."""
        if self._ending:
            writer.close()
            return
        released = True
        self._writers.append(writer)
        try:
            request = json.loads(await reader.readline() or "{}")
            if request.get("job") != self._order.job:
                answer = {"busy": self._order.job, **({"in_use": "yes"} if self._agents else {})}
                writer.write(json.dumps(answer).encode() + b"\n")
                writer.close()
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
        finally:
            if counted:  # else it is a visitor, who may not hold up the end by asking again and again
                self._agents -= 1
                self._deserted = self._deserted or not released
                self._news.set()

    async def _start(self) -> None:
        """Start etcd, on the data of an earlier unclean end if there are any, or EndpointUnreachableError."""
        if self._order.cluster:  # what an earlier member left here is none of this one's
            shutil.rmtree(self._layout.data, ignore_errors=True)
        try:
            await self._try_start()
        except EndpointUnreachableError as error:
            if self._order.cluster or not self._data_is_to_blame():
                raise
            aside = self._layout.data.with_name(f"data.damaged-{time.time_ns()}")
            self._layout.data.rename(aside)
            self._notice = f"etcd could not start from its data, now in {aside}; started anew ({error})"
            await self._try_start()
        if not self._order.cluster:
            await self._restore()
            await self._name_peer()

    def _data_is_to_blame(self) -> bool:
        words = self._layout.log_text()
        foreign = (
            *("address already in use", "no space left", "permission denied", "too many open files"),
            *("file-descriptor", "read-only file system", "quota exceeded", "cannot allocate memory"),
        )
        ended_by_itself = self._etcd is not None and (self._etcd.returncode or 0) > 0
        room = self._layout.free_space() > NEEDED_SPACE  # on a full disk the log is empty too
        return room and self._layout.data.exists() and ended_by_itself and not any(text in words for text in foreign)

    async def _try_start(self) -> None:
        self._etcd = self._launch()
        checking = asyncio.ensure_future(self._check())
        ending = asyncio.ensure_future(asyncio.to_thread(self._etcd.wait))
        await asyncio.wait({checking, ending}, return_when=asyncio.FIRST_COMPLETED)
        if checking.done() and not isinstance(checking.exception(), EndpointUnreachableError):
            await checking  # it serves, or it is a bug that must show
            return
        checking.cancel()
        await asyncio.to_thread(child.stop, self._etcd)
        raise EndpointUnreachableError(
            f"rendezvous: the embedded etcd {find_etcd().version} did not start on {self._order.endpoint} "
            f"(data in {self._layout.data}): {self._layout.last_words()}{self._shortage()}"
        )

    def _shortage(self) -> str:
        free = self._layout.free_space()
        if free > NEEDED_SPACE:
            return ""
        return f"; only {free >> 20} MB are free there, and etcd wants {NEEDED_SPACE >> 20}"

    def _launch(self) -> subprocess.Popen[bytes]:
        return child.start(find_etcd(), self._layout, self._order.quarters, keep_open=self._order.keep_open)

    async def _check(self) -> None:
        """Until etcd serves. Dialling comes first: from a refusal gRPC would back off for longer."""
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            try:
                _, writer = await _dial(self._order.endpoint)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
        if not self._order.cluster:
            await self._store.check(timeout=max(0.1, deadline - time.monotonic()))
            return
        while await self._store.health(self._order.endpoint, timeout=1.0) is None:  # all that a learner answers
            if time.monotonic() > deadline:
                raise EndpointUnreachableError("rendezvous: the member does not answer")
            await asyncio.sleep(0.1)

    async def _name_peer(self) -> None:
        """Data of an earlier run know this member by where it listened for others then, and a list that is old."""
        if self._order.peer:
            await self._store.delete(self._keys.members)
            members = await self._store.members()
            if len(members) == 1 and members[0].peers != (self._order.peer,):
                with contextlib.suppress(AmbiguousError):
                    await self._store.move_peer(members[0].id, self._order.peer)

    async def _restore(self) -> None:
        """Write back the state of an earlier run whose data are gone; create-only, so that newer data win.

        Its horizon is a revision of an etcd that is no more: left as it is, the nodes of the next run would count as
        those of the last, and end as it ended.
        """
        saved = None if self._order.disposable else self._saved.read()
        if saved is not None:
            try:
                value = encode(replace(decode(State, saved), horizon=0))
            except ValueError as error:
                raise EndpointUnreachableError(
                    f"rendezvous: {self._saved.path} is damaged ({error}); without it generations count from 1"
                ) from None
            with contextlib.suppress(AmbiguousError):  # create-only: sent or not, no newer state is lost
                await self._store.txn([absent(self._keys.state)], [Put(self._keys.state, value)])

    def _save(self, value: bytes) -> bool:
        """Whether it is saved now. A full disk must not end the keeper: etcd still has the value."""
        if self._order.disposable:
            return True
        try:
            self._saved.write(value)
        except OSError as error:
            print(f"cannot save the job's state: {error}", file=sys.stderr, flush=True)
            return False
        return True

    async def _follow(self) -> None:
        """Know the job's nodes and keep its state saved."""
        while True:
            try:
                await self._learn_cluster()
                snapshot = await self._store.list(self._keys.prefix)
                self._nodes = set()
                for item in snapshot.items:
                    self._note(item, deleted=False)
                changes = self._store.watch(self._keys.prefix, start_revision=snapshot.revision + 1)
                async for _, batch in changes:
                    for change in batch:
                        self._note(change.kv, deleted=change.deleted)
            except (CompactedError, ElaunchError):
                continue  # list again; the store has waited already

    async def _learn_cluster(self) -> None:
        if self._order.peer and not self._cluster:
            health = await self._store.health(self._order.endpoint, timeout=1.0)
            self._cluster = 0 if health is None else health.cluster

    def _note(self, kv: KeyValue, *, deleted: bool) -> None:
        if kv.key.startswith(self._keys.nodes):
            (self._nodes.discard if deleted else self._nodes.add)(kv.key)
        elif kv.key == self._keys.state and not deleted:
            self._saved_last = self._save(kv.value)
            self._final = _is_final(kv.value)
        elif kv.key == self._keys.members and not deleted and self._order.peer:
            self._note_members(kv.value)
        self._news.set()

    def _note_members(self, value: bytes) -> None:
        """Follow the members: where etcd is asked, what is saved of them, whether this one is still among them."""
        try:
            listed = decode(MemberList, value)
        except ValueError:
            return
        if others := self._company.note(listed, self._cluster):
            own = [self._order.endpoint] if self._order.endpoint in listed.endpoints else []
            self._store.use([*own, *(endpoint for endpoint in others if endpoint not in own)])

    async def _supervise(self) -> None:
        """Start etcd again on its data when something killed it."""
        for _ in range(_RESTARTS):
            assert self._etcd is not None
            await asyncio.to_thread(self._etcd.wait)
            if self._company.several and not find_etcd().sound:
                break  # what it lost the others would not tell it: a new member takes its place
            self._etcd = self._launch()
        await asyncio.to_thread(self._etcd.wait)  # type: ignore[union-attr]
        self._stop_soon()

    async def _until_unused(self) -> None:
        silent_since: float | None = None
        while not self._told_to_stop and not self._company.left:
            self._news.clear()
            unused = self._agents == 0 and not self._nodes
            grace = self._order.grace if self._deserted and not self._final else 0.0
            asking = self._agents == 0 and self._company.several  # nothing else tells that the others are lost
            try:
                ask = (0.0 if self._forsaken else _ASK) if asking else None
                await within(grace if unused else ask, self._news.wait())
            except asyncio.TimeoutError:
                if self._agents == 0 and not self._nodes:
                    return
                if await self._answers():
                    silent_since, self._forsaken = None, False
                    continue
                silent_since = silent_since or time.monotonic()
                if self._forsaken or time.monotonic() - silent_since > _ALONE:
                    print("most members of etcd are lost, and no agent is left", file=sys.stderr, flush=True)
                    self._told_to_stop = True

    async def _answers(self) -> bool:
        """Whether etcd has a majority."""
        try:
            await within(_ANSWER, self._store.get(self._keys.members))
        except (ElaunchError, asyncio.TimeoutError):
            return False
        return True

    async def _end(self) -> None:
        """Stop etcd. Its data go only if the job ended cleanly and its state is saved, or it is no member any more."""
        clean = not self._told_to_stop and self._answer.done() and "endpoint" in self._answer.result()
        if clean and self._company.several:  # they end all at once: etcd may not answer, but has told everything
            clean = self._company.left or self._saved_last
        elif clean:
            try:
                state = await self._store.get(self._keys.state)
                clean = state is None or self._save(state.value)
            except ElaunchError:
                clean = False
        await self._store.close()
        if self._etcd is not None:
            await asyncio.to_thread(child.stop, self._etcd)
        if self._order.disposable and self._answer.done():
            shutil.rmtree(self._layout.directory, ignore_errors=True)
        elif clean:
            shutil.rmtree(self._layout.data, ignore_errors=True)
            self._company.saved.forget()


async def _dial(endpoint: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.startswith("unix:"):
        return await asyncio.open_unix_connection(endpoint.removeprefix("unix:"))
    host, _, port = endpoint.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


def _is_final(value: bytes) -> bool:
    try:
        return decode(State, value).phase.final
    except ValueError:
        return False


async def _keep(order: Order) -> None:
    await Keeper(order).run()


def main() -> None:
    """``python -m elaunch.rendezvous.keeper ORDER``; started by :mod:`elaunch.rendezvous.embedded` only."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(_keep(Order.decode(sys.argv[1])))


if __name__ == "__main__":
    main()
