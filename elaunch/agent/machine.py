"""The machine that this agent runs on, looked at anew for each generation: ports go down and come up.

A look is a few milliseconds of sysfs, and at the first one the drivers' management libraries besides, which may take
seconds, or hang on a device that is lost: in a thread that nobody waits for longer than a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from elaunch.agent.aside import aside
from elaunch.topology.host.addresses import read_addresses
from elaunch.topology.host.discovery import HOST, discover
from elaunch.topology.joining import joined
from elaunch.topology.machine import Topology

ROOT = "ELAUNCH_SYSFS_ROOT"
"""Names a captured tree to be taken for this host's, for tests and for looking into what went wrong elsewhere."""

FIRST_SECONDS = 20.0
NEXT_SECONDS = 5.0
FRESH_SECONDS = 1.0  # for which a look that was taken ahead is as good as one that is taken now


def sysfs_root(environ: Mapping[str, str]) -> Path:
    """The folder that holds ``sys``: this host's, or that of the captured tree that stands for it."""
    return Path(environ[ROOT]) if environ.get(ROOT) else HOST


class Machine:
    """``file`` is the machine as the operator describes it, None where there is no such description.

    ``root`` is the folder that holds ``sys``.
    """

    def __init__(self, file: Topology | None, environ: Mapping[str, str]) -> None:
        self._file = file
        self.root = sysfs_root(environ)
        self._ahead: asyncio.Future[Topology | None] | None = None
        self._begun = 0.0
        self._looked = False
        self._last: Topology | None = None
        self._told: set[str] = set()

    def begin(self) -> None:
        """Take a look while other things are waited for: the next ``now`` is its result, if that comes soon."""
        if self._ahead is None:
            self._begun = time.monotonic()
            self._ahead = asyncio.ensure_future(self._look())

    async def now(self) -> Topology | None:
        """What is there now; None where that cannot be found out in time."""
        self._forget_stale()
        self.begin()
        ahead, self._ahead = self._ahead, None
        assert ahead is not None
        seen = await ahead
        self._looked = True
        if seen is not None and self._last is not None:
            for text in _changes(seen, self._last):
                self.warn("topology_changed", text)
            seen = _with_names(seen, self._last)
        self._last = seen or self._last
        return self._complete(self._last)

    def _forget_stale(self) -> None:
        """Let go of a look that was taken too long ago; the first one, which may take its time, never is."""
        if self._ahead is not None and self._looked and time.monotonic() > self._begun + FRESH_SECONDS:
            self._ahead.cancel()
            self._ahead = None

    def _complete(self, seen: Topology | None) -> Topology | None:
        if self._file is None or seen is None:
            return seen or self._file
        machine, contradictions = joined(self._file, seen)
        for text in contradictions:
            self.warn("topology_differs", text)
        return machine

    def warn(self, event: str, text: str) -> None:
        """Log a warning, once in this agent's life."""
        if text not in self._told:
            self._told.add(text)
            structlog.get_logger().warning(event, text=text)

    async def _look(self) -> Topology | None:
        seconds, nvml = NEXT_SECONDS if self._looked else FIRST_SECONDS, not self._looked
        begun = time.monotonic()
        try:
            seen = await aside(lambda: discover(self.root, nvml=nvml), seconds)
        except asyncio.TimeoutError:
            self.warn("topology_unknown", f"what this machine has could not be found out within {seconds:g} s")
            return None
        took = time.monotonic() - begun
        structlog.get_logger().debug(
            "topology", devices=len(seen.devices), ports=len(seen.ports), seconds=round(took, 3), notes=seen.notes
        )
        return seen

    async def interface_of(self, address: str) -> str:
        """The interface of this host that has ``address``; else ""."""
        if self.root != HOST or self._last is None:
            return ""
        try:
            found = await aside(read_addresses, NEXT_SECONDS) or {}
        except asyncio.TimeoutError:
            return ""
        return next((name for name, addresses in found.items() if address in addresses), "")

    def is_hardware(self, interface: str) -> bool:
        """Whether there is hardware behind an interface of this host."""
        ports = self._last.ports if self._last is not None else ()
        return any(not port.software for port in ports if interface in (port.nic, *port.interfaces))


def _changes(seen: Topology, before: Topology) -> list[str]:
    """What a person should know of: devices that are gone, and what has become odd since the last look."""
    there = {device.pci or device.id for device in seen.devices}
    gone = [device for device in before.devices if (device.pci or device.id) not in there]
    return [
        *(f"device {device.id} {device.model}".rstrip() + " was here and is gone" for device in gone),
        *(text for text in seen.notes if text not in before.notes),
    ]


def _with_names(seen: Topology, before: Topology) -> Topology:
    """The drivers' own words on devices as they were told before, where the devices are the same."""
    if {device.pci for device in seen.devices} != {device.pci for device in before.devices}:
        return seen
    return replace(seen, devices=before.devices)
