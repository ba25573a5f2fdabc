"""What a PCI function is, by its class and ids: the one list of makers and models, whatever source tells of them."""

from __future__ import annotations

from typing import Protocol

from elaunch.topology import pci

NVIDIA, AMD, INTEL, XILINX = 0x10DE, 0x1002, 0x8086, 0x10EE
MELLANOX, AMAZON, CRAY = 0x15B3, 0x1D0F, 0x17DB
_CISCO, _MICROSOFT = 0x1137, 0x1414
_MAKERS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel", 0x1DA3: "Habana", 0x19E5: "Huawei", 0xCABC: "Cambricon"}
_HEADLESS = 0x0380
_CONSOLES = {(AMD, 0x4752), (AMD, 0x5159), (AMD, 0x515E)}
"""Chips that draw a server's console: display controllers of a maker of accelerators, but none themselves."""
_XEON_PHI = range(0x2250, 0x2260)
_VIRTUAL = {
    *((MELLANOX, device) for device in (0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)),
    *((INTEL, device) for device in (0x10ED, 0x1515, 0x1520, 0x154C, 0x1889)),
    *((_CISCO, device) for device in (0x0071, 0x00CF)),
    (_MICROSOFT, 0x00BA),  # MANA
}


class Identified(Protocol):
    """What says of itself which class (24 bits), vendor and device it is; None: not known."""

    @property
    def class_code(self) -> int | None: ...
    @property
    def vendor(self) -> int | None: ...
    @property
    def device(self) -> int | None: ...


def is_accelerator(function: Identified) -> bool:
    """Whether ranks can run on it.

    A display controller of NVIDIA or AMD is one, but for chips that draw a server's console; that of a management
    controller (ASPEED, Matrox) or of a virtual machine is not. Of Intel's only those without a display are (class 0380,
    Data Center GPU Max and Flex): the others are part of a processor or of a desktop. Its co-processors are mostly
    QuickAssist, which computes nothing for a model: only the Xeon Phi counts. Of processing accelerators (class 12) all
    do but Intel's (a laptop's NPU) and Xilinx's (FPGAs that no PyTorch drives).
    """
    vendor, device = function.vendor, function.device
    kind = (function.class_code or 0) >> 8
    if kind >> 8 == pci.DISPLAY:
        return (vendor in (NVIDIA, AMD) and (vendor, device) not in _CONSOLES) or (vendor, kind) == (INTEL, _HEADLESS)
    if kind == pci.CO_PROCESSOR:
        return vendor == NVIDIA or (vendor == INTEL and device in _XEON_PHI)
    return kind >> 8 == pci.ACCELERATOR and vendor not in (INTEL, XILINX)


def is_network(function: Identified) -> bool:
    """Whether it is a NIC: by its class, without one by its maker."""
    if function.class_code is None:
        return function.vendor == MELLANOX or is_efa(function)
    return function.class_code >> 16 == pci.NETWORK


def is_efa(function: Identified) -> bool:
    return function.vendor == AMAZON and (function.device or 0) >> 4 == 0xEFA


def is_virtual(function: Identified) -> bool:
    """Whether its ids are those that makers give to SR-IOV virtual functions: all that a guest sees of it."""
    return (function.vendor, function.device) in _VIRTUAL


def maker(vendor: int | None) -> str:
    """The name of a maker of accelerators, empty where it is not known."""
    return _MAKERS.get(vendor or 0, "")
