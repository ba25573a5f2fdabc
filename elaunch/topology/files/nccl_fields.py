"""The attributes of NCCL's elements as values: missing or empty is None, what cannot be read an error."""

from __future__ import annotations

import re

from elaunch.topology import pci
from elaunch.topology.files.markup import Element
from elaunch.topology.files.wording import defect, quoted

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_HEXADECIMAL = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})")
_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*GT/s.*", re.DOTALL)
_BASES = {0x02: 0x020000, 0x03: 0x030200, 0x06: 0x060400, 0x12: 0x120000}
"""Of classes that are given as a base class alone: NCCL writes 0x02 and 0x03 where sysfs shows it nothing."""


def integer(element: Element, attribute: str) -> int | None:
    text = element.get(attribute)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise _unexpected(element, attribute, "a whole number")
    return int(text)


def hexadecimal(element: Element, attribute: str) -> int | None:
    text = element.get(attribute)
    if not text:
        return None
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        raise _unexpected(element, attribute, "a hexadecimal number like 0x10de")
    return int(found[1], 16)


def address(element: Element) -> str:
    """The canonical PCI address in ``busid``."""
    try:
        return pci.address(element.get("busid"))
    except ValueError as error:
        raise _unexpected(element, "busid", "a PCI address like 0000:3b:00.0") from error


def class_code(element: Element) -> int | None:
    """The 24 bits of sysfs (``0x030200``), also where the file gives fewer."""
    code = hexadecimal(element, "class")
    if code is None or code > 0xFFFF:
        return code
    return code << 8 if code > 0xFF else _BASES.get(code, code << 16)


def speed(element: Element) -> float | None:
    """GT/s per lane of ``link_speed``: ``16 GT/s``, ``32.0 GT/s PCIe``. What the kernel writes for unknown is None."""
    found = _SPEED.fullmatch(element.get("link_speed"))
    return float(found[1]) if found else None


def _unexpected(element: Element, attribute: str, expected: str) -> Exception:
    found = quoted(element.get(attribute)) if attribute in element.attributes else "none"
    return defect(element.line, f"{attribute} of {quoted(element.tag)} is {found}", f"expected {expected}")
