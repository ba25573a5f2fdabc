"""The ports that this node's ranks use, watched: sampled in a thread, so that a driver that hangs holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from elaunch.agent.aside import aside
from elaunch.clock import Clock
from elaunch.links import ERRORS, PortReport, PortTrouble
from elaunch.rendezvous.waiting import cancelled
from elaunch.topology.counters import PortSample, sample
from elaunch.topology.health import Health
from elaunch.topology.machine import Port

PACE = 1.0  # seconds between two samples: with real adapters each counter is a command to the firmware
PATIENCE = 3.0  # seconds that a sample may take, and once more as long in case this process was stopped meanwhile
TOTAL = 30.0  # seconds between two reports on all ports, for what is compared between nodes

Users = Sequence[tuple[Port, tuple[int, ...]]]
"""Ports with the local ranks that use them."""


@dataclass(slots=True)
class _Look:
    """One look at the ports in a thread, which takes them one after the other: ``at`` is the one that is looked at."""

    at: str = ""

    def read(self, root: Path, ports: Sequence[Port]) -> tuple[PortSample, ...]:
        return tuple(self._each(root, ports))

    def _each(self, root: Path, ports: Sequence[Port]) -> Iterator[PortSample]:
        for port in ports:
            self.at = port.id
            yield from sample(root, (port,))


class LinkWatch:
    """What this node's heartbeats say of ports.

    ``in_use`` tells the ports that the present generation uses, ``left_out`` the names (``Port.id``) of those that it
    was to do without: these are watched too, and what was in use before. ``root`` is the folder that holds ``sys``.
    """

    def __init__(
        self, in_use: Callable[[], Users], left_out: Callable[[], Sequence[str]], root: Path, clock: Clock
    ) -> None:
        self._in_use = in_use
        self._left_out = left_out
        self._root = root
        self._clock = clock
        self._health = Health()
        self._reports: tuple[PortReport, ...] = ()
        self._known: dict[str, Port] = {}
        self._stuck: dict[str, asyncio.Task[tuple[PortSample, ...]]] = {}
        self._ill: set[tuple[str, str]] = set()
        self._news = asyncio.Event()
        self._total: tuple[int, float] | None = None  # of which generation the last report on all was, and when

    async def run(self) -> None:
        """Look at the ports once a second, until cancelled."""
        try:
            while True:
                await asyncio.sleep(PACE)
                await self._look()
        finally:
            await cancelled(*self._stuck.values())

    async def news(self) -> None:
        """Return when a port is in trouble, or no longer so, or used by others, and no report has told it yet."""
        await self._news.wait()

    def report(self, generation: int) -> tuple[tuple[PortReport, ...], bool]:
        """What the next heartbeat is to say: of the ports in trouble, or now and then of all; which of the two."""
        self._news.clear()
        now = self._clock.monotonic()
        users = dict(_names(self._in_use()))  # of this generation, though the ports were looked at in the one before
        reports = tuple(replace(report, local_ranks=users.get(report.port, ())) for report in self._reports)
        due = self._total is None or self._total[0] != generation or now >= self._total[1] + TOTAL
        if due and reports:
            self._total = generation, now
            return reports, True
        return tuple(report for report in reports if report.troubles), False

    async def _look(self) -> None:
        users = dict(_names(self._in_use()))
        ports = [port for port, _ in self._in_use()]
        self._known.update((port.id, port) for port in ports)
        others = dict.fromkeys((*self._left_out(), *self._known))  # what was used is told of until it is well
        ports += [self._known.get(name) or named(name) for name in others if name not in users]
        self._answered()
        samples = await self._samples([port for port in ports if port.id not in self._stuck])
        reports = self._health.observe(self._clock.monotonic(), samples, users)
        silent = [_silent(port.id, users.get(port.id, ())) for port in ports if port.id in self._stuck]
        before = _places(self._reports)
        self._reports = (*reports, *silent)
        if _places(self._reports) != before:
            self._total = None
            self._news.set()
        ill = {(report.port, trouble.code) for report in self._reports for trouble in report.troubles}
        if ill != self._ill:
            self._ill = ill
            self._news.set()

    async def _samples(self, ports: Sequence[Port]) -> tuple[PortSample, ...]:
        """Those of the ports that answer; what does not is left to its thread, the others wait for the next look."""
        if not ports:
            return ()
        look = _Look()
        task = asyncio.ensure_future(aside(lambda: look.read(self._root, ports), None))
        try:
            for _ in range(2):
                await asyncio.wait({task}, timeout=PATIENCE)
        except asyncio.CancelledError:
            await cancelled(task)
            raise
        if task.done():
            return task.result()
        self._stuck[look.at] = task
        structlog.get_logger().warning(
            "port_unreadable", port=look.at, reason=f"no counter came within {2 * PATIENCE:.0f} s"
        )
        return ()

    def _answered(self) -> None:
        """Ports whose thread has come through are asked again."""
        for name, task in [*self._stuck.items()]:
            if task.done():
                del self._stuck[name]
                structlog.get_logger().info("port_readable", port=name)


def _names(users: Users) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((port.id, ranks) for port, ranks in users)


def _places(reports: tuple[PortReport, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Which ports there are, and who uses them."""
    return [(report.port, report.local_ranks) for report in reports]


def named(name: str) -> Port:
    """As much of a port as its name tells, which is enough to find its counters."""
    nic, _, number = name.rpartition(":")
    return Port(nic, int(number)) if nic and number.isdecimal() else Port(name, rdma=False)


def _silent(name: str, users: tuple[int, ...]) -> PortReport:
    trouble = PortTrouble(ERRORS, "does not answer: its driver holds a read of its counters")
    return replace(PortReport(name, users), troubles=(trouble,))
