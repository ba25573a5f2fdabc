"""Stacks of all threads into a file that is open beforehand, also while the interpreter lock is held.

The handler is C code of ``faulthandler``: it takes no lock and allocates nothing.
"""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Mapping

from elaunch.progress_page import FLIGHT, STACKS, STACKS_SIGNAL


class Stacks:
    """The files for a rank's stacks and flight record, and the handler. ``signal`` is 0 where there is none."""

    def __init__(self) -> None:
        self._stacks = _open(STACKS)
        self._flight = _open(FLIGHT)
        self.signal = 0
        if self._stacks is not None and _unused(STACKS_SIGNAL):
            os.write(self._stacks, f"main thread 0x{threading.main_thread().ident or 0:016x}\n".encode())
            # Without chain=True, so with SA_RESTART: a system call that it comes upon goes on.
            faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True)
            self.signal = STACKS_SIGNAL

    def write(self, traces: Mapping[str, bytes]) -> None:
        """Write the stacks now, and torch's flight records: this thread has the lock."""
        if self._stacks is not None:
            faulthandler.dump_traceback(self._stacks, all_threads=True)
        if self._flight is not None:
            os.ftruncate(self._flight, 0)
            for trace in traces.values():
                _write_all(self._flight, trace + b"\n")


def _open(variable: str) -> int | None:
    try:
        return os.open(os.environ[variable], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except (KeyError, OSError):
        return None


def _unused(signum: int) -> bool:
    """Nobody handles it: no Python code, and no C code either."""
    with open("/proc/self/status") as file:
        masks = dict(line.split(":", 1) for line in file if line.startswith(("SigCgt", "SigIgn")))
    return not any(int(mask, 16) >> (signum - 1) & 1 for mask in masks.values())


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
