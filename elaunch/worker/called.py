"""What a rank of ``elaunch.launch(config, function)`` does: asks its launcher for the call, runs it, hands back."""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import pickle
import socket
from typing import Any

from elaunch.errors import StartError
from elaunch.worker.error_file import leave
from elaunch.worker.frames import CALL, framed, received, same_user

preparing = False
"""Whether this process only reads its launcher's main file: that may not launch anything."""

_PATIENCE = 60.0  # seconds for a launcher that does not answer


def main() -> None:
    """Run the call, and end as a program does that did the same: with its exception, told in the error file."""
    rank = os.getpid()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_PATIENCE)
        sock.connect(os.environ.pop(CALL))
        if not same_user(sock):
            raise StartError("the socket of this rank's launcher is another user's")
        sock.sendall(framed(json.dumps(_who()).encode()))
        try:
            result = _call(received(sock), received(sock))
        except Exception as error:
            leave(error, _theirs(error))
            raise
        if os.getpid() != rank:
            return  # the function has forked: what its child returns is not the rank's result
        sock.settimeout(None)  # a launcher that is stopped reads on when it is woken
        sock.sendall(framed(result))


def _who() -> dict[str, int]:
    return {"generation": int(os.environ["ELAUNCH_GENERATION"]), "rank": int(os.environ["RANK"])}


def _call(before: bytes, call: bytes) -> bytes:
    global preparing
    preparing = True
    try:
        multiprocessing.spawn.prepare(json.loads(before))
        function, args = pickle.loads(call)  # from this user's own process on this host: see main
    finally:
        preparing = False
    result = function(*args)
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"what the function returned ({type(result).__qualname__}) cannot be handed back: {error}"
        ) from error


def _theirs(error: Exception) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace or error.__traceback__
