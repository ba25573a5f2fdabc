"""What NVML tells, from a library that stands in for it; the real one is asked where it is installed."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from elaunch.topology.host.nvml import read_nvml
from elaunch.topology.host.told import Told
from elaunch.topology.machine import Peer

Gpu = tuple[str, Sequence[str]]
A, B, C = "0000:19:00.0", "0000:3b:00.0", "0001:4c:00.0"


class Library:
    """The part of ``pynvml`` that is used: a GPU is its address, and what is at the far end of each of its links."""

    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_MAX_LINKS = 4

    class NVMLError(Exception):
        pass

    class NVMLError_LibraryNotFound(NVMLError):
        pass

    def __init__(
        self, gpus: Sequence[tuple[str, Sequence[str]]] = (), lost: int | None = None, fails: str = ""
    ) -> None:
        self.gpus = gpus
        self.lost = lost
        self.fails = fails
        self.open = 0

    def nvmlInit(self) -> None:
        if self.fails:
            raise (self.NVMLError if "ersion" in self.fails else self.NVMLError_LibraryNotFound)(self.fails)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index == self.lost:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        if not self.gpus[handle][0]:
            raise self.NVMLError("Not Supported")
        domain, rest = self.gpus[handle][0].split(":", 1)
        return SimpleNamespace(busId=f"0000{domain}:{rest}".upper().encode())

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= len(self.gpus[handle][1]):
            raise self.NVMLError("Invalid Argument")
        return int(bool(self.gpus[handle][1][link]))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        return SimpleNamespace(busId=self.gpus[handle][1][link].upper())


def test_who_the_gpus_are() -> None:
    library = Library([(A, ()), (C, ())])
    assert read_nvml(library) == (
        [Told(A, A, "GPU-0", "NVIDIA H100 80GB HBM3"), Told(C, C, "GPU-1")],
        [],
    )
    assert library.open == 0


def test_direct_links_are_counted_and_those_that_are_down_are_not() -> None:
    told, _ = read_nvml(Library([(A, (B, B, "")), (B, (A, A, C)), (C, (B,))]))
    assert told is not None
    assert [gpu.peers for gpu in told] == [
        (Peer(B, "nvlink", 2),),
        (Peer(A, "nvlink", 2), Peer(C, "nvlink", 1)),
        (Peer(B, "nvlink", 1),),
    ]


def test_switches_join_all_gpus_that_have_links_to_them() -> None:
    switch, other = "0000:07:00.0", "no address"
    told, _ = read_nvml(Library([(A, (switch, other, switch)), (B, (switch, other)), (C, ())]))
    assert told is not None
    assert [gpu.peers for gpu in told] == [(Peer(B, "nvlink", 2),), (Peer(A, "nvlink", 2),), ()]


def test_a_gpu_that_does_not_answer_is_left_aside_and_named() -> None:
    told, notes = read_nvml(Library([(A, ()), (B, ())], lost=1))
    assert [gpu.address for gpu in told or ()] == [A]
    assert notes == ["GPU 1 of NVML was left aside, it does not answer: GPU is lost"]


def test_a_gpu_of_the_processors_chip_has_no_address() -> None:
    assert read_nvml(Library([("", ())])) == ([Told("", "GPU0", "GPU-0", "NVIDIA H100 80GB HBM3")], [])


def test_no_library_is_nothing_odd_and_one_that_does_not_work_is() -> None:
    assert read_nvml(Library(fails="NVML Shared Library Not Found")) == (None, [])
    mismatch = "Driver/library version mismatch"
    assert read_nvml(Library(fails=mismatch)) == (None, [f"NVML does not work here: {mismatch}"])


def test_the_real_library_has_what_is_used() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name in (name for name in vars(Library) if name.startswith("nvml")):
        ours = list(inspect.signature(getattr(Library, name)).parameters)[1:]
        real = [p for p in inspect.signature(getattr(pynvml, name)).parameters.values() if p.default is p.empty]
        assert len(real) <= len(ours), name
    for name in (name for name in vars(Library) if name.startswith("NVML_")):
        assert isinstance(getattr(pynvml, name), int)
    assert issubclass(pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError)
    assert "busId" in dict(pynvml.nvmlPciInfo_t._fields_)


def test_without_a_driver_the_real_library_tells_nothing() -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert read_nvml() == (None, [])
    else:
        told, _ = read_nvml()
        assert told is None or all(gpu.uuid.startswith("GPU-") for gpu in told)
