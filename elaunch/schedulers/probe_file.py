"""The file in which an agent beats, and how a kubelet's probes read it. It imports next to nothing: probes are many."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

VARIABLE = "ELAUNCH_PROBE_FILE"
SECONDS = 2.0  # between two beats
STALE = 30.0  # seconds without one: the agent's loop stands still
READY = ("member", "spare")
_SIZE = 128


def place_of(environ: Mapping[str, str]) -> str:
    """Where the file is."""
    return environ.get(VARIABLE) or "/tmp/elaunch-pod"


class ProbeFile:
    """The writer's end. Each beat is one write to the same bytes, so that no reader sees half of it.

    Raises OSError where the file cannot be made, or is another's.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        self._path = path

    def beat(self, state: str, text: str) -> None:
        """The node is in ``state``, which ``text`` says to a person."""
        line = f"{time.monotonic():.3f} {os.getpid()} {state} {text}".encode()[: _SIZE - 1]
        os.pwrite(self._fd, line.ljust(_SIZE - 1) + b"\n", 0)

    def close(self) -> None:
        """No agent is here any more."""
        os.close(self._fd)
        try:
            os.unlink(self._path)
        except OSError:
            return


def verdict(what: str, line: str, now: float) -> tuple[bool, str]:
    """Whether the node is ``live`` or ``ready`` by the ``line`` of its file, and a sentence. ``now`` is monotonic.

    Live: the agent's loop beats. Ready: the node is a member of a generation that runs, or waits as a spare.
    """
    try:
        beat, _, state, text = line.split(" ", 3)
        age = now - float(beat)
    except ValueError:
        return False, "its file has no beat"
    if not age >= -SECONDS:  # the volume outlived the machine's start, or the number is none
        return False, "its file is of before the machine was started"
    if age > STALE:
        return False, f"the agent has not beaten for {age:.0f} s"
    return what == "live" or state in READY, text.strip()


def probe(what: str, environ: Mapping[str, str]) -> tuple[bool, str]:
    """The verdict by the file that ``environ`` names."""
    path = place_of(environ)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            line = file.read(_SIZE)
    except OSError as error:
        return False, f"no agent beats at {path}: {error.strerror}"
    return verdict(what, line, time.monotonic())
