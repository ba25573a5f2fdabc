"""The asking end: a few small datagrams from each of this node's own interfaces, and what came back in time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace

from elaunch.topology.probe import datagram
from elaunch.topology.probe.echo import AT_ONCE, address_in, bind_to_device
from elaunch.topology.probe.facts import Report, Row, Target
from elaunch.topology.probe.netlink import Link, egress

SENDS = (0.05, 0.1, 0.2, 0.35)  # seconds until a question is asked again
ROUND = 0.02  # seconds from one round to the next,
ROUNDS_SHARE = 0.3  # or less, so that all begin within this share of the time
DIRECT_SHARE = 0.55  # of the time: then those that reach nobody look where else their cable leads
_MTU_DISCOVER, _MTU_DISCOVER6, _DO = 10, 23, 2  # IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO
_PATH_MTU, _PATH_MTU6 = 14, 24
_HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}  # bytes of IP and UDP
_LARGEST = 65_507  # bytes of a UDP datagram over IPv4


async def probe(
    identity: str, secret: bytes, seconds: float, targets: Sequence[Target], links: Sequence[Link]
) -> Report:
    """Ask all ``targets`` from ``links``; the report within ``seconds``."""
    prober = _Prober(identity, secret, links)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        direct = [target for target in targets if target.own]
        rounds = max((target.round for target in direct), default=0) + 1
        gap = min(ROUND, ROUNDS_SHARE * seconds / rounds)
        rows = await prober.ask_all(direct, gap, DIRECT_SHARE * seconds)
        lost = {row.own for row in rows} - {row.own for row in rows if row.reached}
        search = [replace(target, own=own) for own in sorted(lost) for target in targets if not target.own]
        found = await prober.ask_all(search, 0.0, begun + seconds - loop.time())
        return Report(identity, (*rows, *(replace(row, search=True) for row in found if row.reached)))
    finally:
        prober.close()


class _Prober:
    def __init__(self, identity: str, secret: bytes, links: Sequence[Link]) -> None:
        self._identity = identity
        self._secret = secret
        self._links = {link.name: link for link in links}
        self._names = {link.index: link.name for link in links}
        self._sockets: dict[tuple[str, int, bool], socket.socket] = {}
        self._rows: dict[Target, Row] = {}
        self._waiting: dict[bytes, asyncio.Future[datagram.Answer]] = {}
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        for sock in self._sockets.values():
            self._loop.remove_reader(sock)
            sock.close()

    async def ask_all(self, targets: Sequence[Target], gap: float, seconds: float) -> list[Row]:
        """What is known of all after ``seconds`` at most; a round begins ``gap`` seconds after the one before."""
        self._rows = {target: _unanswered(target) for target in targets}
        tasks = [asyncio.ensure_future(self._ask(target, gap * target.round)) for target in targets]
        try:
            if tasks:
                done, _ = await asyncio.wait(tasks, timeout=max(0.0, seconds))
                for task in done:
                    task.result()
            return list(self._rows.values())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, target: Target, wait: float) -> None:
        """One question, which is repeated a few times; then one as large as the MTU allows."""
        await asyncio.sleep(wait)
        if (link := self._links.get(target.own)) is None:
            return
        try:
            sock = self._socket(link, target)
        except OSError:  # it has lost its address meanwhile
            return
        self._rows[target] = row = replace(self._rows[target], egress=self._egress(link, target))
        answer = await self._answered(sock, link, target, 0)
        if answer is None:
            return
        self._rows[target] = row = replace(row, reached=True, arrived=answer.arrived)
        if target.mtu:
            size = min(target.mtu - _HEADERS[sock.family], _LARGEST)
            whole = await self._answered(sock, link, target, size) is not None
            self._rows[target] = replace(row, whole=whole, path_mtu=0 if whole else _path_mtu(link, target))

    async def _answered(self, sock: socket.socket, link: Link, target: Target, size: int) -> datagram.Answer | None:
        nonce = secrets.token_bytes(8)
        question = datagram.question(self._identity, self._secret, nonce, size)
        answer: asyncio.Future[datagram.Answer] = self._loop.create_future()
        self._waiting[nonce] = answer
        try:
            for pause in SENDS:
                try:
                    sock.sendto(question, _place(link, target))
                except OSError as error:
                    if error.errno == errno.EMSGSIZE:
                        return None
                done, _ = await asyncio.wait({answer}, timeout=pause)
                if done:
                    break
            return answer.result() if answer.done() else None
        finally:
            del self._waiting[nonce]

    def _socket(self, link: Link, target: Target) -> socket.socket:
        family = _family(target.address)
        key = (link.name, family, target.link_local)
        if (sock := self._sockets.get(key)) is None:
            sock = self._sockets[key] = _asking(link, family, local=target.link_local)
            self._loop.add_reader(sock, self._readable, sock)
        return sock

    def _readable(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for _ in range(AT_ONCE):  # strangers may send faster than this reads
                answer = datagram.read_answer(sock.recv(2048), self._identity, self._secret)
                waiting = self._waiting.get(answer.nonce) if answer is not None else None
                if answer is not None and waiting is not None and not waiting.done():
                    waiting.set_result(answer)

    def _egress(self, link: Link, target: Target) -> str:
        if target.link_local:
            return link.name
        try:
            source = address_in(link, _family(target.address), 0)[0]
        except OSError:
            return ""
        index = egress(target.address, source)
        return self._names.get(index, f"interface {index}") if index is not None else ""


def _asking(link: Link, family: int, *, local: bool) -> socket.socket:
    """A socket that sends from the interface's own address, by the interface itself where we may say so."""
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        bind_to_device(sock, link.name)
        if family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, _MTU_DISCOVER, _DO)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, _MTU_DISCOVER6, _DO)
        sock.bind((link.link_local, 0, 0, link.index) if local else address_in(link, family, 0))
    except OSError:
        sock.close()
        raise
    return sock


def _path_mtu(link: Link, target: Target) -> int:
    """What the kernel has learnt of the way there; 0 where it knows no more than the interface's own."""
    family = _family(target.address)
    level, option = (socket.IPPROTO_IP, _PATH_MTU) if family == socket.AF_INET else (socket.IPPROTO_IPV6, _PATH_MTU6)
    try:
        with _asking(link, family, local=target.link_local) as sock:
            sock.connect(_place(link, target))
            known = int(sock.getsockopt(level, option))
    except OSError:
        return 0
    return known if known < target.mtu else 0


def _unanswered(target: Target) -> Row:
    return Row(target.own, target.node_id, target.interface, reached=False)


def _family(address: str) -> int:
    return socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET


def _place(link: Link, target: Target) -> tuple[str, int] | tuple[str, int, int, int]:
    if _family(target.address) == socket.AF_INET:
        return target.address, target.port
    return target.address, target.port, 0, link.index if target.link_local else 0
