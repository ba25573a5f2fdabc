"""Length-prefixed JSON over a unix stream socket, with file descriptors beside it; never pickle.

Both ends live on one host and are one release: the spawner process is started by its agent. Kept light, since
a process that hosts user programs imports it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections import deque
from typing import Any

Message = dict[str, Any]

_HEADER = struct.Struct("=I")
_CHUNK = 1 << 18
_MAX_FDS = 16


def frame(message: Message) -> bytes:
    """A message as it goes over the socket."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _HEADER.pack(len(body)) + body


class Channel:
    """One end of the socket, non-blocking: the owner's loop says when it can be read or written."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.eof = False
        self._in = bytearray()
        self._out: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._fds: deque[int] = deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Queue a message and send what the socket takes now. A peer that is gone shows as ``eof``."""
        self._out.append((frame(message), fds))
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        while self._out:
            data, fds = self._out[0]
            try:
                sent = socket.send_fds(self.socket, [data], list(fds)) if fds else self.socket.send(data)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._out.clear()
                return
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], ())

    def receive(self) -> list[Message]:
        """The messages that have arrived in full. Their descriptors wait in order in ``take_fd``."""
        while not self.eof:
            try:
                data, fds, _, _ = socket.recv_fds(self.socket, _CHUNK, _MAX_FDS)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data, fds = b"", []
            for fd in fds:
                os.set_inheritable(fd, False)
            self._fds.extend(fds)
            self._in += data
            self.eof = not data
        return list(self._parse())

    def take_fd(self) -> int:
        """The next descriptor that came with a message; the caller owns it."""
        return self._fds.popleft()

    def close(self) -> None:
        while self._fds:
            socket.close(self._fds.popleft())
        self.socket.close()

    def _parse(self) -> list[Message]:
        messages = []
        while len(self._in) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._in)
            end = _HEADER.size + length
            if len(self._in) < end:
                break
            messages.append(json.loads(bytes(self._in[_HEADER.size : end])))
            del self._in[:end]
        return messages
