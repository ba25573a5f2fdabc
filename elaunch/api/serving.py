"""The socket at which ranks of this host ask for the call, and hand back what it returned: in one thread."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import selectors
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from elaunch.worker.frames import HEAD, framed, same_user

_PIECE = 1 << 20
_LONGEST = 100  # bytes of a socket's path, of 107 that Linux takes
_DRAIN = 5.0  # seconds for what ranks that are gone have sent


@dataclass(slots=True)
class _Rank:
    """One rank's connection: what it has sent so far, and what is still to be sent."""

    sock: socket.socket
    heard: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    who: tuple[int, int] | None = None

    def frame(self) -> bytes | None:
        """The next whole message."""
        if len(self.heard) < HEAD.size:
            return None
        (length,) = HEAD.unpack(self.heard[: HEAD.size])
        if len(self.heard) < HEAD.size + length:
            return None
        found = bytes(self.heard[HEAD.size : HEAD.size + length])
        del self.heard[: HEAD.size + length]
        return found


class CallServer:
    """Serves ``messages`` to every rank that asks. ``close`` leaves nothing."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = b"".join(map(framed, messages))
        self._folder = _folder()
        self.path = os.path.join(self._folder, "call")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._results: dict[int, dict[int, bytes]] = {}
        self._newest = 0

    def serve(self, until: int) -> None:
        """Serve until the descriptor ``until`` has something to read, or its other end is closed."""
        self._selector.register(until, selectors.EVENT_READ)
        try:
            while not any(key.fd == until for key in self._turn(None)):
                pass
        finally:
            self._selector.unregister(until)

    def drain(self) -> None:
        """Read the rest of what ranks have sent that are gone by now."""
        deadline = time.monotonic() + _DRAIN
        while len(self._selector.get_map()) > 1 and (left := deadline - time.monotonic()) > 0:
            self._turn(left)

    def results(self) -> dict[int, Any]:
        """What the function returned, by rank, in the last generation that this host's ranks were in."""
        last = self._results.get(self._newest, {})
        return {rank: pickle.loads(last[rank]) if last[rank] else None for rank in sorted(last)}

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _turn(self, timeout: float | None) -> list[selectors.SelectorKey]:
        ready = self._selector.select(timeout)
        for key, events in ready:
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _Rank):
                try:
                    self._exchange(key.data, events)
                except OSError:  # it is gone
                    self._forget(key.data)
        return [key for key, _ in ready]

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        if not same_user(sock):
            sock.close()
            return
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, _Rank(sock))

    def _exchange(self, rank: _Rank, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            rank.unsent = rank.unsent[rank.sock.send(rank.unsent[:_PIECE]) :]
            if not rank.unsent:
                self._selector.modify(rank.sock, selectors.EVENT_READ, rank)
        if not events & selectors.EVENT_READ:
            return
        data = rank.sock.recv(_PIECE)
        rank.heard += data
        while (message := rank.frame()) is not None:
            self._take(rank, message)
        if not data:
            self._forget(rank)

    def _take(self, rank: _Rank, message: bytes) -> None:
        if rank.who is None:
            who = json.loads(message)
            rank.who = (int(who["generation"]), int(who["rank"]))
            self._begin(rank.who[0])
            self._results.setdefault(rank.who[0], {}).setdefault(rank.who[1], b"")
            rank.unsent = memoryview(self._messages)
            self._selector.modify(rank.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, rank)
        elif rank.who[0] in self._results:
            self._results[rank.who[0]][rank.who[1]] = message

    def _begin(self, generation: int) -> None:
        """What earlier generations have handed back is nobody's any more."""
        if generation > self._newest:
            self._newest = generation
            self._results.clear()

    def _forget(self, rank: _Rank) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(rank.sock)
        rank.sock.close()


def wait_for(fd: int) -> None:
    """Wait until the descriptor has something to read, or its other end is closed."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()


def _folder() -> str:
    """A folder that this user alone can enter, with a path short enough for a socket in it."""
    made = tempfile.mkdtemp(prefix="elaunch-call-")
    if len(made) > _LONGEST:
        os.rmdir(made)
        made = tempfile.mkdtemp(prefix="elaunch-call-", dir="/tmp")
    return made
