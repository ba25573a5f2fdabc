"""Messages on a stream between a rank that runs a function and the program that launched it: a length, then bytes."""

from __future__ import annotations

import os
import socket
import struct

CALL = "ELAUNCH_CALL"
"""Names the socket at which a rank is told what to run."""
CALLED = "ELAUNCH_CALLED"
"""What the job's report calls the function."""

HEAD = struct.Struct("!Q")
_PEER = struct.Struct("3i")  # pid, user, group


def framed(data: bytes) -> bytes:
    return HEAD.pack(len(data)) + data


def same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end is this user's: nothing else is believed."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, user, _ = _PEER.unpack(raw)
    return bool(user == os.geteuid())


def received(sock: socket.socket) -> bytes:
    """The next message. Raises EOFError where the other end has gone."""
    (length,) = HEAD.unpack(_exactly(sock, HEAD.size))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        if not count:
            raise EOFError("the program that launched this rank has ended")
        view = view[count:]
    return bytes(data)
