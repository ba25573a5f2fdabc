"""The socket at which ranks hand back what their function returned."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket

from elaunch.api.serving import CallServer
from elaunch.worker.frames import framed, received


def asked(server: CallServer, generation: int, rank: int) -> socket.socket:
    """The connection of a rank that has been told what to run."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(server.path)
    sock.sendall(framed(json.dumps({"generation": generation, "rank": rank}).encode()))
    for _ in range(3):
        server._turn(0.2)  # taken in, heard, answered
    assert received(sock) == b"call"
    return sock


def test_only_what_the_last_generation_returned_is_kept() -> None:
    with contextlib.closing(CallServer(b"call")) as server:
        late, first = asked(server, 1, 0), asked(server, 1, 1)
        first.sendall(framed(pickle.dumps("old")))
        server._turn(1.0)
        second = asked(server, 2, 1)
        late.sendall(framed(pickle.dumps("of a generation that is over")))
        server._turn(1.0)
        second.sendall(framed(pickle.dumps("new")))
        for sock in (late, first, second):
            sock.close()
        server.drain()
        assert server.results() == {1: "new"}
        assert list(server._results) == [2]
    assert not os.path.exists(server.path)
