"""An etcd of our own, for jobs that have none: started by the node that owns the rendezvous endpoint.

From three nodes on it has a member on three of them: the others are started here as well (berths.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elaunch.errors import EndpointUnreachableError, UsageError
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
from elaunch.rendezvous.hiring import GRACE, TIMEOUT, EmbeddedEtcd, ask, embedded, hire, made_directory
from elaunch.rendezvous.home import Meeting, SavedMembers, default_state_dir
from elaunch.rendezvous.order import Order
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio_view import address_of

__all__ = ["EmbeddedEtcd", "EtcdBinary", "ensure_embedded", "find_etcd", "owns"]

_POLL = 0.05
_IN_USE = 2.0  # seconds: for so long another job's agents here may be about to leave
_PROBE = 6.0  # seconds for what holds the port, or members elsewhere, to answer: beside a busy one a job would split


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
        return await hire(order)
    parse_endpoints([endpoint])
    host, _, port = endpoint.rpartition(":")
    place = _Place(host, int(port), job, state_dir, several_hosts, grace, tls, address, tuple(others))
    return await place.ensure()


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
    def _own(self) -> str:
        """The loopback address that stands for a host of its own, "" where there is none."""
        return own_loopback(self.address) if self.address else ""

    @property
    def _loopback(self) -> str:
        """The same where the endpoint is there: then no other such host comes here, and may want this port itself."""
        return self._own if self._own == own_loopback(self.host) else ""

    async def ensure(self) -> EmbeddedEtcd:
        meeting, busy = Meeting(self.port, self._loopback), ""
        deadline = time.monotonic() + TIMEOUT
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
                answer = await ask(talk, self.job)
                if "endpoint" in answer:
                    return await self._shared(embedded(answer, talk))
                talk[1].close()
                busy = answer.get("busy", "")
                used_since = (used_since or time.monotonic()) if "in_use" in answer else None
                if used_since is not None and time.monotonic() - used_since > _IN_USE:
                    break
            await asyncio.sleep(_POLL)  # a keeper that starts or ends; nothing tells when a lock is free
        raise UsageError(
            f"rendezvous: port {self.port} is taken by job {busy} on this host; give this job another port"
            if busy
            else f"rendezvous: the keeper of port {self.port} did not serve or end within {TIMEOUT:.0f} s"
        )

    def _addresses(self) -> tuple[IPAddress, ...]:
        if self._loopback:
            return resolve(self._loopback)
        found = listen_addresses(self.host, several_hosts=self.several_hosts)
        if self._own and not any(address.is_unspecified for address in found):
            found += resolve(self._own)  # where other members look for this one
        return found

    async def _shared(self, etcd: EmbeddedEtcd) -> EmbeddedEtcd:
        """What another agent's keeper answered: if that stands for another host, its member is not this one's."""
        if self._own and etcd.peer and address_of(etcd.peer) != self._own:
            await etcd.release(0.0)
        return etcd

    async def _found_or_hired(self, meeting: Meeting, lock: int) -> EmbeddedEtcd:
        addresses = self._addresses()
        # Of a wildcard the client uses loopback.
        local = [address for address in addresses if not address.is_unspecified]
        endpoint = join(local[0] if local else "127.0.0.1", self.port)
        if taken := self._taken(addresses):
            return await self._foreign(taken)
        directory = made_directory(self.state_dir or default_state_dir(self.job, self.port, self._loopback))
        if elsewhere := await self._elsewhere(directory):
            return EmbeddedEtcd(elsewhere, "")
        listen = tuple(join(address, self.port) for address in addresses)
        meet, tls = str(meeting.socket), self.tls.paths if self.tls is not None else ()
        order = Order(self.job, str(directory), listen, endpoint, False, meet, self.grace, 0, (lock,), tls)
        notice = _outlived(Layout(directory))
        try:
            etcd = await hire(self._with_peer(order) if self._reached(addresses) else order)
        except EndpointUnreachableError:
            if taken := self._taken(addresses):  # in the meantime, by an agent that does not meet us over the lock
                return await self._foreign(taken)
            raise
        return replace(etcd, notice=etcd.notice or notice)

    def _taken(self, addresses: tuple[IPAddress, ...]) -> tuple[str, ...]:
        """Where somebody listens already."""
        taken = [address for address in addresses if is_taken((address,), self.port)]
        return tuple(join("127.0.0.1" if address.is_unspecified else address, self.port) for address in taken)

    async def _elsewhere(self, directory: Path) -> tuple[str, ...]:
        """Where the job's etcd serves without a member here: at another endpoint, or where one here last knew it."""
        if found := await _serving(self.others, 0, self.tls):
            return found
        joined = default_state_dir(self.job, self.port, self.address) if self.address else directory
        for home in dict.fromkeys((directory, joined)):
            cluster, endpoints = SavedMembers(Layout(home).members).read()
            if found := await _serving(endpoints, cluster, self.tls):
                return found
        return ()

    def _reached(self, listening: tuple[IPAddress, ...]) -> bool:
        """Whether clients on other hosts reach what listens on these addresses."""
        return bool(self.address) and (
            any(one.is_unspecified for one in listening) or not set(resolve(self.address)).isdisjoint(listening)
        )

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
            peer=f"{'http' if self.tls is None else 'https'}://{join(self.address, port)}",
            listen_peer=join(at, port),
        )

    async def _foreign(self, endpoints: tuple[str, ...]) -> EmbeddedEtcd:
        """Somebody else's etcd on our port is as good; anything else is in the way."""
        store = EtcdStore(endpoints, credentials=credentials(self.tls))
        try:
            return EmbeddedEtcd(endpoints, await store.check(timeout=_PROBE))
        except EndpointUnreachableError:
            raise UsageError(
                f"rendezvous: port {self.port} is taken by another program; give this job another port"
            ) from None
        finally:
            await store.close()


async def _serving(endpoints: Sequence[str], cluster: int, tls: Tls | None) -> tuple[str, ...]:
    """Those of ``endpoints`` at which etcd serves, if it has a majority; of this ``cluster``, if it is not 0."""
    store = EtcdStore(endpoints, credentials=credentials(tls)) if endpoints else None
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
