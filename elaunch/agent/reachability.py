"""This node's part in probes: it tells of its interfaces, answers on them, and asks whom the leader names."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection

import structlog

from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Probe
from elaunch.topology.probe.candidates import candidates
from elaunch.topology.probe.echo import Responder
from elaunch.topology.probe.facts import Interface, Report
from elaunch.topology.probe.netlink import Link, links
from elaunch.topology.probe.prober import probe

MOST_SECONDS = 30.0  # whatever a leader asks
_KNOWN = 64  # probes that are remembered


class Reachability:
    """Opened with ``open`` where the job has other nodes; before that, and elsewhere, it costs nothing.

    ``exclude`` are interfaces that the operator leaves out.
    """

    def __init__(self, board: StatusBoard, exclude: Collection[str] = ()) -> None:
        self._board = board
        self._exclude = exclude
        self._address = ""
        self._responder: Responder | None = None
        self._known: dict[tuple[str, bytes], None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, address: str) -> None:
        """Tell of the interfaces, and answer on them. ``address`` is where the other nodes reach this one."""
        if _loopback(address):
            return
        try:
            found = self._candidates(address)
        except OSError as error:
            structlog.get_logger().info("interfaces_unknown", reason=str(error))
            return
        self._address = address
        self._responder = Responder(found)
        self._board.update(interfaces=tuple(self._told(link) for link in found))

    def take(self, command: Probe) -> None:
        """Do it, unless it was done before. The next leader may ask the same with another secret: then of all anew."""
        if self._responder is None or (command.id, command.secret) in self._known:
            return
        self._known[command.id, command.secret] = None
        while len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        self._responder.admit(command.id, command.secret)
        task = asyncio.create_task(self._probe(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._responder is not None:
            self._responder.close()

    async def _probe(self, command: Probe) -> None:
        seconds = min(max(command.seconds, 0.0), MOST_SECONDS)
        try:
            here = self._candidates(self._address)
            report = await probe(command.id, command.secret, seconds, command.targets, here)
        except OSError as error:
            report = Report(command.id, error=str(error))
        self._board.update(probe=report)

    def _candidates(self, address: str) -> tuple[Link, ...]:
        return candidates(links(), address, self._exclude)

    def _told(self, link: Link) -> Interface:
        assert self._responder is not None
        port = self._responder.ports.get(link.name, 0)
        return Interface(link.name, link.addresses, link.link_local, link.mtu, port)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
