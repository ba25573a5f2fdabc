"""What a port speaks, and whether there is hardware behind it, by names and ids, where the source does not say it."""

from __future__ import annotations

import re

from elaunch.topology import pci
from elaunch.topology.machine import LinkLayer, PciFunction
from elaunch.topology.pci_ids import CRAY, INTEL, is_efa, is_virtual

_OMNIPATH = {(INTEL, 0x24F0), (INTEL, 0x24F1)}
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


def is_virtual_function(function: PciFunction) -> bool:
    """By the physical function that the source names, else by the ids."""
    return bool(function.physical) or is_virtual(function)


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
        if function.vendor == CRAY:
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
