"""This network namespace's interfaces, addresses and routes, as the kernel has them: by netlink, never by a command.

``/sys/class/net`` would show another namespace's where a process entered this one without mounting /sys anew.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_GETLINK, _NEWLINK, _GETADDR, _NEWADDR, _GETROUTE, _NEWROUTE = 18, 16, 22, 20, 26, 24
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDR = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_UP, _RUNNING, _LOOPBACK = 0x1, 0x40, 0x8
_UNUSABLE = 0x8 | 0x40  # IFA_F_DADFAILED, IFA_F_TENTATIVE: no socket can have such an address
_PATIENCE = 2.0  # seconds

Attributes = dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Link:
    """An interface. ``kind`` is what it is made of where it is software (``veth``, ``bridge``), "" for hardware.

    ``master`` is the name of the bond or bridge that it is a part of. ``addresses`` have their prefix lengths.
    """

    index: int
    name: str
    mtu: int
    up: bool
    carrier: bool
    loopback: bool
    kind: str = ""
    master: str = ""
    addresses: tuple[str, ...] = ()
    link_local: str = ""


def links() -> tuple[Link, ...]:
    """All interfaces, in the kernel's order. Raises OSError."""
    with _opened() as sock:
        found = list(_dump(sock, _GETLINK, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))
        addresses = list(_dump(sock, _GETADDR, _ADDR.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))
    plain: dict[int, list[str]] = {}
    local: dict[int, str] = {}
    for data in addresses:
        family, length, flags, _, index = _ADDR.unpack_from(data)
        values = _attributes(data[_ADDR.size :])
        raw = values.get(2) or values.get(1)  # IFA_LOCAL, IFA_ADDRESS
        if raw is None or family not in (socket.AF_INET, socket.AF_INET6) or flags & _UNUSABLE:
            continue
        address = ipaddress.ip_address(raw)
        if address.is_link_local and family == socket.AF_INET6:
            local.setdefault(index, str(address))
        else:
            plain.setdefault(index, []).append(f"{address}/{length}")
    names = {_LINK.unpack_from(data)[2]: _text(_attributes(data[_LINK.size :]).get(3)) for data in found}
    return tuple(_link(data, names, plain, local) for data in found)


def egress(destination: str, source: str) -> int | None:
    """The index of the interface by which a packet from ``source`` to ``destination`` leaves; None: there is none."""
    to, of = ipaddress.ip_address(destination), ipaddress.ip_address(source)
    family = socket.AF_INET if to.version == 4 else socket.AF_INET6
    bits = to.max_prefixlen
    body = _ROUTE.pack(family, bits, bits, 0, 0, 0, 0, 0, 0) + _attribute(1, to.packed) + _attribute(2, of.packed)
    try:
        with _opened() as sock:
            for data in _ask(sock, _GETROUTE, body, _REQUEST):
                raw = _attributes(data[_ROUTE.size :]).get(4)  # RTA_OIF
                return struct.unpack("=I", raw)[0] if raw else None
    except OSError:
        pass
    return None


def _link(data: bytes, names: dict[int, str], plain: dict[int, list[str]], local: dict[int, str]) -> Link:
    _, _, index, flags, _ = _LINK.unpack_from(data)
    values = _attributes(data[_LINK.size :])
    info = _attributes(values.get(18, b""))  # IFLA_LINKINFO
    master = values.get(10)
    return Link(
        index=index,
        name=names[index],
        mtu=struct.unpack("=I", values[4])[0] if 4 in values else 0,
        up=bool(flags & _UP),
        carrier=bool(flags & _RUNNING),
        loopback=bool(flags & _LOOPBACK),
        kind=_text(info.get(1)),
        master=names.get(struct.unpack("=I", master)[0], "") if master else "",
        addresses=tuple(sorted(plain.get(index, ()), key=lambda text: ":" in text)),
        link_local=local.get(index, ""),
    )


def _opened() -> socket.socket:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    sock.settimeout(_PATIENCE)
    return sock


def _dump(sock: socket.socket, kind: int, body: bytes) -> Iterator[bytes]:
    return _ask(sock, kind, body, _REQUEST | _DUMP)


def _ask(sock: socket.socket, kind: int, body: bytes, flags: int) -> Iterator[bytes]:
    sock.sendto(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body, (0, 0))
    while True:
        data, at = sock.recv(1 << 20), 0
        while at + _HEADER.size <= len(data):
            length, answer, more, _, _ = _HEADER.unpack_from(data, at)
            part = data[at + _HEADER.size : at + length]
            if answer == _DONE:
                return
            if answer == _ERROR:
                code = -struct.unpack_from("=i", part)[0]
                raise OSError(code, os.strerror(code))
            yield part
            if not more & 0x2:  # not one of several
                return
            at += (length + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value.ljust((len(value) + 3) & ~3, b"\0")


def _attributes(data: bytes) -> Attributes:
    found: Attributes = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def _text(raw: bytes | None) -> str:
    return raw.split(b"\0")[0].decode(errors="replace") if raw else ""
