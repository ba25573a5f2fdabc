"""torch's flight recorders: the numbers of the last collective that each process group began and completed.

docs/decisions/0003-progress.md tells why they are asked, and when they must not be.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_BACKENDS = {"_dump_fr_trace_json": "gloo", "_dump_nccl_trace_json": "nccl"}
_NUMBERS = {"gloo": "op_id", "nccl": "collective_seq_id"}
_RELAXED = 2  # cudaStreamCaptureModeRelaxed


@dataclass(frozen=True, slots=True)
class Status:
    """Of one group: the last collective that was enqueued, and those that its device has begun and completed.

    Gloo's two threads write down what they have completed as they come to it: with two that end close together the
    older may stand there for good. The entries tell.
    """

    enqueued: int
    begun: int
    completed: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded collective; ``number`` is the one that ``Status`` has for it. ``retired``: it is surely over."""

    group_id: int
    group_name: str
    number: int
    text: str
    retired: bool = False


class Recorder:
    """The flight recorder of one backend. Neither method may be called without the interpreter lock."""

    def __init__(self, backend: str, dump: Callable[[bool, bool], bytes]) -> None:
        self.backend = backend
        self._dump = dump

    def statuses(self) -> dict[int, Status]:
        """By the recorder's own number of the group; empty where nothing is recorded. Takes 20 microseconds."""
        found = _loaded(self._dump(False, False)).get("pg_status", {})
        return {int(number): _status(status) for number, status in found.items()}

    def entries(self) -> list[Entry]:
        """What it has kept, oldest first. Takes tens of milliseconds where it is full."""
        self._spare_captures()
        number = _NUMBERS[self.backend]
        return [_entry(e, number) for e in _loaded(self._dump(True, False)).get("entries", []) if not e.get("is_p2p")]

    def trace(self) -> bytes:
        """The whole record, as JSON."""
        self._spare_captures()
        return self._dump(True, False)

    def _spare_captures(self) -> None:
        """It asks events of their state, which would break off another thread's capture of a CUDA graph."""
        if self.backend != "nccl":
            return
        exchange = getattr(ctypes.CDLL(None), "cudaThreadExchangeStreamCaptureMode", None)
        if exchange is not None:
            exchange(ctypes.byref(ctypes.c_int(_RELAXED)))


def recorders(c10d: Any) -> list[Recorder]:
    """Those that this torch has and that answer at once; ``c10d`` is torch._C._distributed_c10d.

    With ROCm NCCL's asks every communicator for all that it knows, under a lock, each time.
    """
    rocm = getattr(getattr(sys.modules.get("torch"), "version", None), "hip", None)
    usable = {name: backend for name, backend in _BACKENDS.items() if hasattr(c10d, name)}
    return [Recorder(b, getattr(c10d, name)) for name, b in usable.items() if not (rocm and b == "nccl")]


def described(operation: str, dtypes: Iterable[str], sizes: Iterable[Iterable[int]]) -> str:
    """``all_reduce float32[1024]``; of more than two tensors the number is told."""
    tensors = [f"{_DTYPES.get(d, d.lower())}[{','.join(map(str, s))}]" for d, s in zip(dtypes, sizes, strict=False)]
    more = [f"and {len(tensors) - 2} more"] if len(tensors) > 2 else []
    return " ".join([operation.split(":", 1)[-1], *tensors[:2], *more])


_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
}


def _loaded(dumped: bytes) -> dict[str, Any]:
    found = json.loads(dumped)
    return found if isinstance(found, dict) else {}


def _status(status: dict[str, str]) -> Status:
    names = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    return Status(*(max(0, int(status[name])) for name in names))


def _entry(entry: dict[str, Any], number: str) -> Entry:
    text = described(entry["profiling_name"], entry["input_dtypes"], entry["input_sizes"])
    return Entry(entry["pg_id"], entry["process_group"][0], entry[number], text, bool(entry.get("retired")))
