"""What a rank does to itself."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from collections.abc import Callable

from elaunch.inject.fault import Fault

_PIECE = 16 << 20
_LOOK = 0.002  # seconds between two looks whether it may go on
_NAP = 0.05  # the same in a sleep, which may be long
_ROOM = 64 << 20  # bytes beyond what it has that a rank may take before it runs out of memory


class InjectedError(RuntimeError):
    """Raised by a rank that was asked to."""


class InjectedMemoryError(InjectedError, MemoryError):
    """The same, for want of memory."""


def act(fault: Fault, held: list[bytearray], released: Callable[[], bool]) -> str:
    """Do it; what is to be said of it where it could not be done.

    ``held`` is what memory is kept in. ``released`` says whether the agent wants it to last no longer.
    """
    if fault.kind == "kill":
        os.kill(os.getpid(), fault.signal)
    elif fault.kind == "exit":
        raise SystemExit(fault.code)
    elif fault.kind == "raise":
        raise InjectedError(f"injected at {fault.at}")
    elif fault.kind == "device-reset":
        raise InjectedError(f"CUDA error: the device was reset (injected at {fault.at})")
    elif fault.kind == "stop":
        _wait(released)  # the agent stops it here, beside whatever else it has it stopped for
    elif fault.kind == "sleep":
        _sleep(fault.seconds, released)
    elif fault.kind == "slow-step":
        time.sleep(fault.delay)
    elif fault.kind == "lock":
        _hold_interpreter(fault.seconds)
    elif fault.kind == "memory":
        held.extend(_allocated(fault.bytes)) if fault.bytes else _run_out(fault)
    elif fault.kind == "mismatch":
        return _another_collective()
    return ""


def _wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(_LOOK)


def _sleep(seconds: float, released: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds if seconds else float("inf")
    while (left := until - time.monotonic()) > 0 and not released():
        time.sleep(min(left, _NAP))


def _hold_interpreter(seconds: float) -> None:
    """In C, with the interpreter lock held, as an extension does that forgets to let go of it."""
    poll = ctypes.PyDLL(None).poll
    until = time.monotonic() + seconds if seconds else float("inf")
    while (left := until - time.monotonic()) > 0:  # a signal breaks it off
        poll(None, 0, int(min(left, 3600.0) * 1000) + 1)


def _allocated(size: int) -> list[bytearray]:
    """So many bytes, all written to. Raises MemoryError."""
    return [bytearray(b"\1") * min(_PIECE, size - done) for done in range(0, size, _PIECE)]


def _run_out(fault: Fault) -> None:
    """Raises InjectedMemoryError: this rank only, by a limit of its own, so that nothing else suffers."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, hard))
    try:
        _allocated(16 * _ROOM)
    except MemoryError as error:
        raise InjectedMemoryError(f"no memory is left (injected at {fault.at})") from error


def _another_collective() -> str:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return "there is no process group to enter another collective in"
    torch = sys.modules["torch"]
    device = "cpu" if "gloo" in distributed.get_backend() else torch.accelerator.current_accelerator()
    distributed.broadcast(torch.zeros(7, device=device), 0)
    return ""
