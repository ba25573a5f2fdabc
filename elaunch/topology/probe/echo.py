"""The answering end: a UDP socket on each interface, which says at which interface a question came in.

A question gets an answer only if its probe was announced by the job's leader (``admit``); the answer is never longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence

from elaunch.topology.probe import datagram
from elaunch.topology.probe.netlink import Link

IP_PKTINFO = 8
BIND_TO_DEVICE = 25  # SO_BINDTODEVICE
_PKTINFO4 = struct.Struct("=i4s4s")
_PKTINFO6 = struct.Struct("=16si")
_KNOWN = 8  # probes whose questions are answered
AT_ONCE = 64  # datagrams that are read in one turn of the loop
_TRIES = 5  # to find a port that is free in both families
_LARGEST = 1 << 16  # bytes


class Responder:
    """Answers on the given interfaces until closed. ``ports`` by name; an interface that cannot be had has none."""

    def __init__(self, links: Sequence[Link]) -> None:
        """Needs a running loop."""
        self._names = {link.index: link.name for link in links}
        self._secrets: dict[bytes, bytes] = {}
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self.ports: dict[str, int] = {}
        for link in links:
            with contextlib.suppress(OSError):
                self.ports[link.name] = self._open(link)

    def admit(self, probe: str, secret: bytes) -> None:
        """From now on answer the questions of this probe, and no more those of one long ago."""
        self._secrets[datagram.mark_of(probe)] = secret
        while len(self._secrets) > _KNOWN:
            del self._secrets[next(iter(self._secrets))]

    def close(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()

    def _open(self, link: Link) -> int:
        """The port at which both families are answered; one is left out where it cannot be had."""
        if link.addresses and all(":" in address for address in link.addresses):
            self._read(six := listening(socket.AF_INET6, link, 0))
            return int(six.getsockname()[1])
        for _ in range(_TRIES):
            four = listening(socket.AF_INET, link, 0)
            port = int(four.getsockname()[1])
            try:
                self._read(listening(socket.AF_INET6, link, port))
            except OSError:
                if socket.has_ipv6 and link.link_local:
                    four.close()
                    continue
            self._read(four)
            return port
        self._read(four := listening(socket.AF_INET, link, 0))
        return int(four.getsockname()[1])

    def _read(self, sock: socket.socket) -> None:
        self._sockets.append(sock)
        self._loop.add_reader(sock, self._readable, sock)

    def _readable(self, sock: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                data, extra, _, peer = sock.recvmsg(_LARGEST, 256)
            except OSError:
                return
            secret = self._secrets.get(datagram.probe_of(data) or b"")
            if secret is None:
                continue
            index, back = _came_in(extra)
            reply = datagram.answer(data, secret, self._names.get(index, ""))
            if reply is not None:
                with contextlib.suppress(OSError):
                    sock.sendmsg([reply], back, 0, peer)


def listening(family: int, link: Link, port: int) -> socket.socket:
    """A socket that gets what comes in at ``link``, whatever address it is for. Raises OSError.

    Where the kernel does not let us bind to the device, it gets what is for the interface's address, wherever it
    comes in.
    """
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        if bind_to_device(sock, link.name):
            sock.bind(("", port))
        else:
            sock.bind(address_in(link, family, port))
    except OSError:
        sock.close()
        raise
    return sock


def bind_to_device(sock: socket.socket, name: str) -> bool:
    """Whether the kernel lets us: without a right to raw sockets since Linux 5.7."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, BIND_TO_DEVICE, name.encode())
    except PermissionError:
        return False
    return True


def address_in(link: Link, family: int, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """The interface's own address in a family, as sockets take it. Raises OSError where it has none."""
    plain = (address.partition("/")[0] for address in link.addresses)
    if family == socket.AF_INET:
        found = next((address for address in plain if ":" not in address), None)
        if found is None:
            raise OSError(f"{link.name} has no IPv4 address")
        return found, port
    found = next((address for address in plain if ":" in address), None)
    if found is not None:
        return found, port, 0, 0
    if not link.link_local:
        raise OSError(f"{link.name} has no IPv6 address")
    return link.link_local, port, 0, link.index


def _came_in(extra: Sequence[tuple[int, int, bytes]]) -> tuple[int, list[tuple[int, int, bytes]]]:
    """The interface at which a datagram came in, and what sends the answer back by it, from the address it was for."""
    for level, kind, data in extra:
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            index, _, to = _PKTINFO4.unpack_from(data)
            return index, [(level, kind, _PKTINFO4.pack(index, to, b"\0" * 4))]
        if (level, kind) == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO):
            _, index = _PKTINFO6.unpack_from(data)
            return index, [(level, kind, data)]
    return 0, []
