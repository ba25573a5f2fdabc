"""What a PCI function or an interface is, from its class, ids and name, where the source does not say it."""

from __future__ import annotations

import re

from elaunch.topology import pci
from elaunch.topology.machine import LinkLayer, PciFunction

NVIDIA, AMD, INTEL, XILINX = 0x10DE, 0x1002, 0x8086, 0x10EE
_VENDORS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel", 0x1DA3: "Habana"}
_AMAZON, _CRAY, _MELLANOX, _CISCO = 0x1D0F, 0x17DB, 0x15B3, 0x1137
_VGA, _HEADLESS = 0x0300, 0x0380
_CONSOLES = {(AMD, 0x4752), (AMD, 0x5159), (AMD, 0x515E)}
"""Chips that draw a server's console: display controllers of a maker of accelerators, but none themselves."""
_XEON_PHI = range(0x2250, 0x2260)
_OMNIPATH = {(INTEL, 0x24F0), (INTEL, 0x24F1)}
_VIRTUAL = {
    *((_MELLANOX, device) for device in (0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)),
    *((INTEL, device) for device in (0x10ED, 0x1515, 0x1520, 0x154C, 0x1889)),
    *((_CISCO, device) for device in (0x0071, 0x00CF)),
}
_INFINIBAND = (pci.INFINIBAND, 0x0C06)  # the second of cards from before the first was given
_SOFTWARE = re.compile(
    r"(lo|veth.*|virbr\d.*|vnet\d.*|docker.*|br-.*|br\d+|tun\d.*|tap.*|dummy\d.*|cni.*|cali.*|flannel.*|vxlan.*|wg\d.*)"
)
_RDMA = re.compile(
    r"(mlx\d|bnxt_re|roce|rdmap|cxi|irdma|i40iw|hfi1|qib|qedr|efa|erdma|ionic|usnic|mana_|mthca|ib[psf])"
)
_LAYERS = (
    (re.compile(r"(ib\d+|ib[psf]\w*|qib\d+|mthca\d+)"), LinkLayer.INFINIBAND),
    (re.compile(r"(eth|en[opsxP]|bond\d|roce|bnxt_re|irdma|i40iw|qedr|ionic|erdma|mana_)\w*"), LinkLayer.ETHERNET),
    (re.compile(r"cxi\d+"), LinkLayer.SLINGSHOT),
    (re.compile(r"hfi1_\d+"), LinkLayer.OMNIPATH),
    (re.compile(r"(efa_|rdmap)\w*"), LinkLayer.EFA),
)


def is_accelerator(function: PciFunction) -> bool:
    """Whether ranks can run on it: a GPU or the like, no console's display, no offload engine."""
    code, ids = function.class_code, (function.vendor or 0, function.device or 0)
    if code is None:
        return ids[0] == NVIDIA
    kind = code >> 8
    if kind == pci.CO_PROCESSOR:
        return ids[0] == INTEL and ids[1] in _XEON_PHI
    if kind == _VGA:
        return ids[0] in (NVIDIA, AMD) and ids not in _CONSOLES
    if kind >> 8 == pci.DISPLAY:
        return ids[0] != INTEL or kind == _HEADLESS
    return kind >> 8 == pci.ACCELERATOR and ids[0] not in (INTEL, XILINX)


def is_network(function: PciFunction) -> bool:
    if function.class_code is None:
        return function.vendor == _MELLANOX or is_efa(function)
    return function.class_code >> 16 == pci.NETWORK


def is_efa(function: PciFunction) -> bool:
    return function.vendor == _AMAZON and (function.device or 0) >> 4 == 0xEFA


def is_virtual_function(function: PciFunction) -> bool:
    """By the ids that makers give to SR-IOV functions, where the source does not name the physical one."""
    return bool(function.physical) or (function.vendor, function.device) in _VIRTUAL


def vendor(function: PciFunction) -> str:
    """The maker of an accelerator, empty where it is not known."""
    return _VENDORS.get(function.vendor or 0, "")


def is_software(interface: str) -> bool:
    return _SOFTWARE.fullmatch(interface) is not None


def is_rdma(name: str) -> bool:
    """Whether a name is one that RDMA devices have, rather than network interfaces."""
    return _RDMA.match(name) is not None


def link_layer(name: str, function: PciFunction | None = None) -> LinkLayer:
    """What a port speaks, from the function behind it and else from its name."""
    if function is not None:
        if is_efa(function):
            return LinkLayer.EFA
        if function.vendor == _CRAY:
            return LinkLayer.SLINGSHOT
        if (function.vendor, function.device) in _OMNIPATH:
            return LinkLayer.OMNIPATH
        if (function.class_code or 0) >> 8 in _INFINIBAND:
            return LinkLayer.INFINIBAND
    for pattern, layer in _LAYERS:
        if pattern.fullmatch(name):
            return layer
    if function is not None and (function.class_code or 0) >> 8 == pci.NETWORK << 8:
        return LinkLayer.ETHERNET
    return LinkLayer.UNKNOWN
