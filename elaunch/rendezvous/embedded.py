"""An etcd of our own, for jobs that have none: started by the node that owns the rendezvous endpoint.

From three nodes on it has a member on three of them: the others are started here as well (:func:`join_embedded`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import elaunch
from elaunch.errors import EndpointUnreachableError, StartError, UsageError
from elaunch.rendezvous.addresses import (
    IPAddress,
    bindable,
    free_port,
    is_taken,
    join,
    listen_addresses,
    own_loopback,
    owns,
    resolve,
)
from elaunch.rendezvous.binary import EtcdBinary, find_etcd
from elaunch.rendezvous.child import Layout
from elaunch.rendezvous.endpoints import credentials, parse_endpoints
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.home import Meeting, SavedMembers, default_state_dir
from elaunch.rendezvous.keeper import Order
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio import Berth, MemberList
from elaunch.rendezvous.waiting import within

__all__ = [
    "EmbeddedEtcd",
    "EtcdBinary",
    "adopt_embedded",
    "ensure_embedded",
    "find_etcd",
    "join_embedded",
    "offer",
    "owns",
]

_TIMEOUT = 25.0  # seconds until an embedded etcd must serve: longer than its keeper waits for it
_POLL = 0.05
GRACE = 5.0  # seconds
_IN_USE = 2.0  # seconds: for so long another job's agents here may be about to leave
_PROBE = 2.0  # seconds for whatever holds the port to answer as an etcd would


@dataclass
class EmbeddedEtcd:
    """An etcd that serves at ``endpoints``, kept at least until :meth:`release` or this process's end.

    ``keeper`` is the pid of the keeper if this process started it, else 0: it must survive this process, so
    spare it when you stop your children. ``notice`` is something that the user should know, or empty. ``peer`` is its
    URL for other members, empty where it can have none.
    """

    endpoints: tuple[str, ...]
    version: str
    notice: str = ""
    keeper: int = 0
    peer: str = ""
    _talk: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def ours(self) -> bool:
        """Whether a keeper on this host holds it."""
        return self._talk is not None

    async def ended(self) -> None:
        """Until the keeper has ended."""
        if self._talk is not None:
            with contextlib.suppress(ConnectionError):
                await self._talk[0].read()

    async def release(self, timeout: float, *, forsaken: bool = False) -> None:
        """Say that this agent needs it no more, and wait up to ``timeout`` seconds for its end.

        It ends once no other agent of this host and no node of the job is left, and goes on until then; if it is
        ``forsaken`` by the other members, so that it can know of no node, once no other agent of this host is left.
        """
        if self._talk is None:
            return
        (reader, writer), self._talk = self._talk, None
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError, subprocess.TimeoutExpired):
            writer.write(b"forsaken\n" if forsaken else b"release\n")
            writer.write_eof()
            await within(timeout, reader.read())
            if self._process is not None:
                await asyncio.to_thread(self._process.wait, timeout)
        writer.close()


async def ensure_embedded(
    endpoint: str | None,
    *,
    job: str,
    state_dir: Path | None = None,
    several_hosts: bool,
    grace: float = GRACE,
    tls: Tls | None = None,
    address: str = "",
    others: Sequence[str] = (),
) -> EmbeddedEtcd:
    """The embedded etcd of ``job``: the one that serves already, or a new one.

    Without an ``endpoint``, or at port 0, it is on a Unix socket and leaves nothing behind. With
    ``host:port``, which must be this machine's, it is on that port, its data in ``state_dir`` (default:
    below XDG_STATE_HOME). ``grace`` is for how many seconds it waits for a new agent when all have died and
    no node is left. With ``tls`` it takes TLS only on that port, and with an authority only clients that it signed for.
    With an ``address``, under which other nodes reach this one, it can take in members there. If the job's etcd serves
    at one of ``others``, or where an earlier member here last knew it, that one is it.

    Raises UsageError if the port is taken or there is no etcd program, EndpointUnreachableError if it does
    not start.
    """
    find_etcd()
    if endpoint is None or endpoint.endswith(":0"):  # torchrun's way to say: any free port will do
        directory = Path(tempfile.mkdtemp(prefix="elaunch-", dir=_short_temporary_directory()))
        order = Order(job, str(directory), (), Layout(directory).endpoint, True, "", grace, 0, ())
        return await _hire(order)
    parse_endpoints([endpoint])
    host, _, port = endpoint.rpartition(":")
    place = _Place(host, int(port), job, state_dir, several_hosts, grace, tls, address, tuple(others))
    return await place.ensure()


async def adopt_embedded(job: str, address: str, port: int) -> EmbeddedEtcd | None:
    """The member of ``job`` that an earlier agent of this host has left behind at ``port``, if there is one."""
    talk: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    try:
        talk = await asyncio.open_unix_connection(str(Meeting(port, own_loopback(address)).socket))
        answer = await _ask(talk, job)
    except (ConnectionError, FileNotFoundError):
        return None
    if "endpoint" not in answer:
        talk[1].close()
        return None
    return _embedded(answer, talk)


async def join_embedded(job: str, berth: Berth, listed: MemberList, *, state_dir: Path | None = None) -> EmbeddedEtcd:
    """Start the member that the cluster of ``listed`` has taken in for ``berth``.

    Raises ElaunchError where it cannot be started.
    """
    listen_at = bindable(berth.address)
    port, peer_port = (int(text.rpartition(":")[2]) for text in (berth.endpoint, berth.peer))
    meeting = Meeting(port, own_loopback(berth.address))
    lock = meeting.try_lock()
    if lock is None:
        raise StartError(f"another etcd of this host has port {port}")
    try:
        directory = _made(state_dir or default_state_dir(job, port, berth.address))
        order = Order(
            job=job,
            directory=str(directory),
            listen=(join(listen_at, port),),
            endpoint=berth.endpoint,
            disposable=False,
            meeting=str(meeting.socket),
            grace=GRACE,
            agent=0,
            keep_open=(lock,),
            peer=berth.peer,
            listen_peer=join(listen_at, peer_port),
            cluster=listed.peers,
            others=listed.endpoints,
        )
        return await _hire(order)
    finally:
        os.close(lock)  # the keeper has its own


def offer(node_id: str, address: str, port: int) -> Berth:
    """Where a node could keep a member: at ``port`` if that is free, else at any. Raises OSError."""
    listen_at = bindable(address)
    client = free_port(listen_at, port)
    peer = next(free for _ in range(10) if (free := free_port(listen_at)) != client)
    return Berth(node_id, address, f"http://{join(address, peer)}", join(address, client))


def _short_temporary_directory() -> str | None:
    # The name of a Unix socket has room for 107 bytes.
    return "/tmp" if len(tempfile.gettempdir()) > 60 else None


@dataclass(frozen=True, slots=True)
class _Place:
    """A port of this machine on which the job wants its etcd."""

    host: str
    port: int
    job: str
    state_dir: Path | None
    several_hosts: bool
    grace: float
    tls: Tls | None
    address: str = ""
    others: tuple[str, ...] = ()

    @property
    def _loopback(self) -> str:
        return own_loopback(self.address) if self.address else ""

    async def ensure(self) -> EmbeddedEtcd:
        meeting, busy = Meeting(self.port, self._loopback), ""
        deadline = time.monotonic() + _TIMEOUT
        used_since: float | None = None
        while time.monotonic() < deadline:
            lock = meeting.try_lock()
            if lock is not None:
                try:
                    return await self._found_or_hired(meeting, lock)
                finally:
                    os.close(lock)  # the keeper has its own
            with contextlib.suppress(ConnectionError, FileNotFoundError):
                talk = await asyncio.open_unix_connection(str(meeting.socket))
                answer = await _ask(talk, self.job)
                if "endpoint" in answer:
                    return _embedded(answer, talk)
                talk[1].close()
                busy = answer.get("busy", "")
                used_since = (used_since or time.monotonic()) if "in_use" in answer else None
                if used_since is not None and time.monotonic() - used_since > _IN_USE:
                    break
            await asyncio.sleep(_POLL)  # a keeper that starts or ends; nothing tells when a lock is free
        raise UsageError(
            f"rendezvous: port {self.port} is taken by job {busy} on this host; give this job another port"
            if busy
            else f"rendezvous: the keeper of port {self.port} did not serve or end within {_TIMEOUT:.0f} s"
        )

    def _addresses(self) -> tuple[IPAddress, ...]:
        if self._loopback:  # stands for a host of its own: others may want the same port at theirs
            return resolve(self._loopback)
        return listen_addresses(self.host, several_hosts=self.several_hosts)

    async def _found_or_hired(self, meeting: Meeting, lock: int) -> EmbeddedEtcd:
        addresses = self._addresses()
        # Of a wildcard the client uses loopback.
        local = [address for address in addresses if not address.is_unspecified]
        endpoint = join(local[0] if local else "127.0.0.1", self.port)
        if is_taken(addresses, self.port):
            return await self._foreign(endpoint)
        directory = _made(self.state_dir or default_state_dir(self.job, self.port, self._loopback))
        if elsewhere := await self._elsewhere(directory):
            return EmbeddedEtcd(elsewhere, "")
        listen = tuple(join(address, self.port) for address in addresses)
        meet, tls = str(meeting.socket), self.tls.paths if self.tls is not None else ()
        order = Order(self.job, str(directory), listen, endpoint, False, meet, self.grace, 0, (lock,), tls)
        notice = _outlived(Layout(directory))
        etcd = await _hire(self._with_peer(order) if self.address else order)
        return replace(etcd, notice=etcd.notice or notice)

    async def _elsewhere(self, directory: Path) -> tuple[str, ...]:
        """Where the job's etcd serves without a member here: at another endpoint, or where one here last knew it."""
        if found := await _serving(self.others, 0):
            return found
        joined = default_state_dir(self.job, self.port, self.address) if self.address else directory
        for home in dict.fromkeys((directory, joined)):
            cluster, endpoints = SavedMembers(Layout(home).members).read()
            if found := await _serving(endpoints, cluster):
                return found
        return ()

    def _with_peer(self, order: Order) -> Order:
        """As ``order``, with a place for the talk of members."""
        at = bindable(self.address)
        try:
            port = free_port(at)
        except OSError as error:
            raise UsageError(f"rendezvous: no port is free on {at} for etcd: {error.strerror}") from error
        return replace(
            order,
            endpoint=join(self.address, self.port),
            peer=f"http://{join(self.address, port)}",
            listen_peer=join(at, port),
        )

    async def _foreign(self, endpoint: str) -> EmbeddedEtcd:
        """Somebody else's etcd on our port is as good; anything else is in the way."""
        store = EtcdStore([endpoint], credentials=credentials(self.tls))
        try:
            return EmbeddedEtcd((endpoint,), await store.check(timeout=_PROBE))
        except EndpointUnreachableError:
            raise UsageError(
                f"rendezvous: port {self.port} is taken by another program; give this job another port"
            ) from None
        finally:
            await store.close()


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"rendezvous: cannot make {directory} for etcd: {error.strerror}") from error
    return directory


async def _serving(endpoints: Sequence[str], cluster: int) -> tuple[str, ...]:
    """Those of ``endpoints`` at which etcd serves, if it has a majority; of this ``cluster``, if it is not 0."""
    store = EtcdStore(endpoints) if endpoints else None
    if store is None:
        return ()
    try:
        found = await asyncio.gather(*(store.health(endpoint, timeout=_PROBE) for endpoint in endpoints))
    finally:
        await store.close()
    pairs = zip(endpoints, found, strict=True)
    return tuple(e for e, health in pairs if health and health.leader and cluster in (0, health.cluster))


def _outlived(layout: Layout) -> str:
    """Put aside the data of one member whose fellows are gone: alone it can decide nothing. What the user should know.

    The job's last state is saved beside them: generations go on from there.
    """
    _, others = SavedMembers(layout.members).read()
    SavedMembers(layout.members).forget()
    if not others or not layout.data.exists():
        return ""
    aside = layout.data.with_name(f"data.outlived-{time.time_ns()}")
    layout.data.rename(aside)
    return (
        f"none of the job's former etcd members ({', '.join(others)}) answers; started anew, their data are in {aside}"
    )


async def _hire(order: Order) -> EmbeddedEtcd:
    """Start a keeper and wait until its etcd serves. A keeper takes its directory away itself, unless it has died."""
    try:
        return await _hired(order)
    except StartError:
        if order.disposable:
            shutil.rmtree(order.directory, ignore_errors=True)
        raise


async def _hired(order: Order) -> EmbeddedEtcd:
    ours, its = socket.socketpair()
    try:
        with its:
            order = replace(order, agent=its.fileno())
            process = _spawn(order)
    except OSError as error:
        ours.close()
        raise StartError(f"cannot start the keeper of the embedded etcd: {error}") from error
    talk = await asyncio.open_unix_connection(sock=ours)
    try:
        answer = await _ask(talk, order.job)
    except ConnectionError:
        raise StartError(f"the keeper of the embedded etcd died: {_last_words(order)}") from None
    if "endpoint" not in answer:
        talk[1].close()
        raise EndpointUnreachableError(answer["error"])
    return _embedded(answer, talk, process)


def _log(order: Order) -> Path:
    return Path(order.directory) / "keeper.log"


def _last_words(order: Order) -> str:
    try:
        return _log(order).read_text(errors="replace").strip().splitlines()[-1][-500:]
    except (OSError, IndexError):
        return "it said nothing"


def _spawn(order: Order) -> subprocess.Popen[bytes]:
    with _log(order).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "elaunch.rendezvous.keeper", order.encode()],
            cwd=Path(elaunch.__file__).parents[1],  # not the user's: his modules must not shadow ours
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(order.agent, *order.keep_open),
            start_new_session=True,
        )


async def _ask(talk: tuple[asyncio.StreamReader, asyncio.StreamWriter], job: str) -> dict[str, str]:
    """The keeper's answer. Raises ConnectionError if it has ended."""
    reader, writer = talk
    writer.write(json.dumps({"job": job}).encode() + b"\n")
    try:
        line = await within(_TIMEOUT, reader.readline())
    except asyncio.TimeoutError:
        writer.close()
        raise ConnectionResetError("the keeper does not answer") from None
    if not line:
        writer.close()
        raise ConnectionResetError("the keeper has ended")
    answer: dict[str, str] = json.loads(line)
    return answer


def _embedded(
    answer: dict[str, str],
    talk: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    process: subprocess.Popen[bytes] | None = None,
) -> EmbeddedEtcd:
    pid = 0 if process is None else process.pid
    endpoint, peer = answer["endpoint"], answer.get("peer", "")
    return EmbeddedEtcd((endpoint,), answer["version"], answer["notice"], pid, peer, talk, process)
