"""The etcd process that a keeper keeps: started until it serves, and again when something killed it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable

from elaunch.errors import EndpointUnreachableError
from elaunch.rendezvous import child
from elaunch.rendezvous.binary import find_etcd
from elaunch.rendezvous.child import NEEDED_SPACE, Layout
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.order import Order

_START_TIMEOUT = 15.0  # seconds for etcd to serve
_RESTARTS = 3  # of an etcd that was killed


class Daemon:
    """One etcd on one directory. ``notice`` is something that the user should know, or empty."""

    def __init__(self, order: Order, layout: Layout, store: EtcdStore) -> None:
        self.notice = ""
        self._order = order
        self._layout = layout
        self._store = store
        self._etcd: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
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
            self.notice = f"etcd could not start from its data, now in {aside}; started anew ({error})"
            await self._try_start()

    def _data_is_to_blame(self) -> bool:
        words = self._layout.log_text()
        foreign = (
            *("address already in use", "no space left", "permission denied", "too many open files"),
            *("file-descriptor", "read-only file system", "quota exceeded", "cannot allocate memory"),
            *("failed to create new OS thread", "out of memory", "Resource temporarily unavailable"),
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

    async def supervise(self, may_restart: Callable[[], Awaitable[bool]]) -> None:
        """Start etcd again on its data when something killed it, a few times; return when it stays dead."""
        for _ in range(_RESTARTS):
            assert self._etcd is not None
            await asyncio.to_thread(self._etcd.wait)
            if not await may_restart():
                return
            self._etcd = self._launch()
        await asyncio.to_thread(self._etcd.wait)  # type: ignore[union-attr]

    @property
    def ended_in_order(self) -> bool:
        """Whether etcd has ended after a SIGTERM, with all that it had written down on disk."""
        return self._etcd is not None and self._etcd.returncode in (0, -signal.SIGTERM)

    async def stop(self) -> None:
        """Ask it to end, and see to it."""
        if self._etcd is not None:
            try:
                await asyncio.to_thread(child.stop, self._etcd)
            except RuntimeError:  # no thread is to be had, and it must end all the same
                child.stop(self._etcd)


async def _dial(endpoint: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.startswith("unix:"):
        return await asyncio.open_unix_connection(endpoint.removeprefix("unix:"))
    host, _, port = endpoint.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))
