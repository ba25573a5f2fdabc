"""The IP addresses of this host's interfaces, from the kernel's routing socket."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ADDRESS = struct.Struct("=BBBBi")  # family, prefix length, flags, scope, interface
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NEW_ADDRESS, _GET_ADDRESS, _DONE, _ERROR = 20, 22, 3, 2
_REQUEST_DUMP = 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SECONDS = 1.0
_BUFFER = 1 << 16

Found = tuple[int, str]
"""The number of an interface, and an address of it."""


def read_addresses() -> dict[str, tuple[str, ...]] | None:
    """By interface, IPv4 before IPv6 and link-local last. None where the kernel does not tell within a second."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return None
    try:
        names = dict(socket.if_nameindex())
        with socket.socket(family, socket.SOCK_RAW, 0) as asked:
            asked.settimeout(_SECONDS)
            asked.sendto(_HEADER.pack(24, _GET_ADDRESS, _REQUEST_DUMP, 1, 0) + bytes(8), (0, 0))
            found = list(_answers(asked))
    except OSError:
        return None
    by_name: dict[str, list[str]] = {name: [] for name in names.values()}
    for number, address in found:
        by_name.setdefault(names.get(number, ""), []).append(address)
    return {name: tuple(sorted(addresses, key=_rank)) for name, addresses in by_name.items()}


def _answers(asked: socket.socket) -> Iterator[Found]:
    done = False
    while not done:
        found, done = parse(asked.recv(_BUFFER))
        yield from found


def parse(data: bytes) -> tuple[list[Found], bool]:
    """The addresses of one answer, and whether it is the last."""
    found: list[Found] = []
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if kind in (_DONE, _ERROR) or length < _HEADER.size:
            return found, True
        if kind == _NEW_ADDRESS:
            found.extend(_address(data[_HEADER.size : length]))
        data = data[_aligned(length) :]
    return found, False


def _address(body: bytes) -> Iterator[Found]:
    if len(body) < _ADDRESS.size:
        return
    *_, number = _ADDRESS.unpack_from(body)
    told: dict[int, bytes] = {}
    rest = body[_ADDRESS.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if length < _ATTRIBUTE.size:
            break
        told[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[_aligned(length) :]
    own = told.get(_IFA_LOCAL) or told.get(_IFA_ADDRESS) or b""  # ADDRESS is the far end's, on a line of two
    if len(own) in (4, 16):
        yield number, str(ipaddress.ip_address(own))


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _rank(text: str) -> tuple[int, bool]:
    address = ipaddress.ip_address(text)
    return address.version, address.is_link_local
