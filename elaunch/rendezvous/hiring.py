"""The keeper of an embedded etcd, as an agent knows it: started, asked, released."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import elaunch
from elaunch.errors import EndpointUnreachableError, StartError, UsageError
from elaunch.rendezvous.child import NEEDED_SPACE, Layout
from elaunch.rendezvous.order import Order
from elaunch.rendezvous.waiting import within

GRACE = 5.0  # seconds
TIMEOUT = 25.0  # seconds until an embedded etcd must serve: longer than its keeper waits for it


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
    _order: Order | None = field(default=None, repr=False)  # of the keeper that this process started

    @property
    def ours(self) -> bool:
        """Whether a keeper on this host holds it."""
        return self._talk is not None

    @property
    def disposable(self) -> bool:
        """Whether it serves this process's own node alone."""
        return self._order is not None and self._order.disposable

    @property
    def complaint(self) -> str:
        """What the log of an etcd that this process had started complains of last, or that its disk is full."""
        if self._order is None:
            return ""
        layout = Layout(Path(self._order.directory))
        free = layout.free_space()
        short = layout.directory.exists() and free < NEEDED_SPACE  # then the log may have had no room either
        text = f"only {free >> 20} MB are free in {layout.directory}, and etcd wants {NEEDED_SPACE >> 20}"
        return layout.complaint() or (text if short else "")

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
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            writer.write(b"forsaken\n" if forsaken else b"release\n")
            writer.write_eof()
            await within(timeout, reader.read())
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, timeout)
                if self._order is not None and self.disposable:  # a keeper that was killed could not
                    shutil.rmtree(self._order.directory, ignore_errors=True)
        writer.close()


def made_directory(directory: Path) -> Path:
    """``directory``, made for etcd. Raises UsageError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"rendezvous: cannot make {directory} for etcd: {error.strerror}") from error
    return directory


async def hire(order: Order) -> EmbeddedEtcd:
    """Start a keeper and wait until its etcd serves. A keeper takes its directory away itself, unless it has died."""
    try:
        return await _hired(order)
    except (StartError, EndpointUnreachableError):  # short of what it needs, the keeper may not get to it
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
        answer = await ask(talk, order.job)
    except ConnectionError:
        raise StartError(f"the keeper of the embedded etcd died: {_last_words(order)}") from None
    if "endpoint" not in answer:
        talk[1].close()
        raise EndpointUnreachableError(answer["error"])
    return replace(embedded(answer, talk, process), _order=order)


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


async def ask(talk: tuple[asyncio.StreamReader, asyncio.StreamWriter], job: str) -> dict[str, str]:
    """The keeper's answer. Raises ConnectionError if it has ended."""
    reader, writer = talk
    writer.write(json.dumps({"job": job}).encode() + b"\n")
    try:
        line = await within(TIMEOUT, reader.readline())
    except asyncio.TimeoutError:
        writer.close()
        raise ConnectionResetError("the keeper does not answer") from None
    if not line:
        writer.close()
        raise ConnectionResetError("the keeper has ended")
    answer: dict[str, str] = json.loads(line)
    return answer


def embedded(
    answer: dict[str, str],
    talk: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    process: subprocess.Popen[bytes] | None = None,
) -> EmbeddedEtcd:
    pid = 0 if process is None else process.pid
    endpoint, peer = answer["endpoint"], answer.get("peer", "")
    return EmbeddedEtcd((endpoint,), answer["version"], answer["notice"], pid, peer, talk, process)
