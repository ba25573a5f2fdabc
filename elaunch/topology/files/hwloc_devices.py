"""Accelerators in hwloc's XML: PCI functions with what the drivers' libraries told of them."""

from __future__ import annotations

import re

from elaunch.topology import pci_ids
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import printable
from elaunch.topology.machine import Device, PciFunction, Peer

_BACKENDS = ("nvml", "rsmi", "ze", "mic", "cuda")
"""Whose numbers are the driver's order, the best first: CUDA's own may have the fastest first."""
_NUMBERED = re.compile(r"(nvml|rsmi|ze|mic|cuda)([0-9]{1,4})")
_UUIDS = ("NVIDIAUUID", "AMDUUID", "LevelZeroUUID")
_UUID = re.compile(r"[A-Za-z0-9-]{8,64}")
_BARE = re.compile(r"[0-9a-fA-F]{16}")


def is_accelerator(function: PciFunction, element: Element) -> bool:
    """By its class and ids, or since a library that drives accelerators has it.

    OpenCL's word does not count, which takes processors too, nor does a display (``card0``).
    """
    return pci_ids.is_accelerator(function) or bool(_numbers(element))


def numbered(found: list[tuple[PciFunction, Element]]) -> list[Device]:
    """The devices, with the index that one library gives to each of them; where none knows all, without."""
    by_name = {name: function.address for function, element in found for name in _names(element)}
    backend = next((b for b in _BACKENDS if found and all(b in _numbers(element) for _, element in found)), "")
    return [
        accelerator(function, element, _numbers(element)[backend] if backend else -1, by_name)
        for function, element in found
    ]


def accelerator(function: PciFunction, element: Element, index: int, by_name: dict[str, str]) -> Device:
    infos = _infos(element)
    return Device(
        id=function.address,
        index=index,
        pci=function.address,
        uuid=_uuid(infos),
        vendor=pci_ids.maker(function.vendor),
        model=printable(infos.get("GPUModel") or infos.get("PCIDevice", "")),
        numa=function.numa,
        peers=tuple(Peer(by_name[name], "xgmi") for name in _peers(infos) if name in by_name),
    )


def _peers(infos: dict[str, str]) -> list[str]:
    return sorted(set(infos.get("XGMIPeers", "").split()))


def _os_devices(element: Element) -> list[Element]:
    return [child for child in element.all("object") if child.get("type") == "OSDev"]


def _names(element: Element) -> list[str]:
    return [child.get("name") for child in _os_devices(element)]


def _numbers(element: Element) -> dict[str, int]:
    matches = (_NUMBERED.fullmatch(name) for name in _names(element))
    return {match[1]: int(match[2]) for match in matches if match}


def _infos(element: Element) -> dict[str, str]:
    """All that is told of a device and by the libraries that know it; what comes first holds."""
    found: dict[str, str] = {}
    for source in (element, *_os_devices(element)):
        for info in source.all("info"):
            found.setdefault(info.get("name"), info.get("value"))
    return found


def _uuid(infos: dict[str, str]) -> str:
    text = next((infos[key] for key in _UUIDS if infos.get(key)), "")
    if not _UUID.fullmatch(text):
        return ""
    return f"GPU-{text}" if _BARE.fullmatch(text) else text  # as ROCm's libraries take AMD's
