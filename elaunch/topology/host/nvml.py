"""NVIDIA's GPUs as NVML tells of them: who they are, in what order, and what NVLink joins.

The order is that of PCI addresses. CUDA's own is fastest first, unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` says otherwise:
on a machine with GPUs of one kind the two agree.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from elaunch.topology import pci
from elaunch.topology.host.told import Told
from elaunch.topology.machine import Peer

_SWITCH = ""


def read_nvml(library: Any = None) -> tuple[list[Told] | None, list[str]]:
    """All GPUs that this process may use, and what was odd. None: there is no library, or it does not work here.

    Without persistence mode the driver starts every GPU for this: that may take seconds.
    """
    if library is None:
        try:
            library = importlib.import_module("pynvml")
        except ImportError:
            return None, []
    try:
        library.nvmlInit()
    except library.NVMLError_LibraryNotFound:
        return None, []
    except library.NVMLError as error:
        return None, [f"NVML does not work here: {_text(error)}"]
    try:
        return _read(library)
    except library.NVMLError as error:
        return None, [f"NVML does not work here: {_text(error)}"]
    finally:
        library.nvmlShutdown()


def _read(library: Any) -> tuple[list[Told], list[str]]:
    bare: list[Told] = []
    notes: list[str] = []
    links: dict[str, Counter[str]] = {}
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            notes.append(f"GPU {index} of NVML was left aside, it does not answer: {_text(error)}")
            continue
        told = _gpu(library, handle, index)
        bare.append(told)
        links[told.id] = Counter(_links(library, handle))
    return [_with_peers(told, links) for told in bare], notes


def _gpu(library: Any, handle: Any, index: int) -> Told:
    """One that is part of the processor's chip has no PCI address."""
    try:
        address = pci.address(_asked(library, lambda gpu: library.nvmlDeviceGetPciInfo(gpu).busId, handle))
    except ValueError:
        address = ""
    return Told(
        address,
        id=address or f"GPU{index}",
        uuid=_asked(library, library.nvmlDeviceGetUUID, handle),
        model=_asked(library, library.nvmlDeviceGetName, handle),
    )


def _links(library: Any, handle: Any) -> Iterator[str]:
    """The far end of each link that is up."""
    for link in range(library.NVML_NVLINK_MAX_LINKS):
        try:
            if library.nvmlDeviceGetNvLinkState(handle, link) != library.NVML_FEATURE_ENABLED:
                continue
            yield pci.address(_text(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId))
        except library.NVMLError:
            continue  # no such link on this kind of GPU
        except ValueError:
            yield _SWITCH


def _with_peers(told: Told, links: dict[str, Counter[str]]) -> Told:
    """What is no GPU at the far end is a switch, and switches join all GPUs that have links to one."""
    switched = {id_: sum(n for far, n in ends.items() if far not in links) for id_, ends in links.items()}
    counts = {id_: links[told.id][id_] or min(switched[told.id], switched[id_]) for id_ in links if id_ != told.id}
    return replace(told, peers=tuple(Peer(id_, "nvlink", count) for id_, count in counts.items() if count))


def _asked(library: Any, ask: Callable[[Any], Any], handle: Any) -> str:
    try:
        return _text(ask(handle))
    except library.NVMLError:
        return ""


def _text(told: object) -> str:
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
