"""Descriptors, memory, processes, sockets and files of all that a soak has started, over time and at the end."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from elaunch.lab import reaper

from . import proc
from .cluster import Cluster
from .leaks import Figures, Zombies

LOOK = 2.0  # seconds between two looks


class Counting:
    """``tmp`` is where all that is started makes its temporary files. ``look`` raises BrokenError."""

    def __init__(self, cluster: Cluster, mark: str, tmp: Path) -> None:
        self.figures: Figures = {}
        self.shared: set[str] = set()
        self._cluster, self._mark, self._tmp = cluster, mark, tmp
        self._zombies = Zombies()
        self._next = 0.0

    def look(self, now: float) -> None:
        if now < self._next:
            return
        self._next = now + LOOK
        found = proc.marked(self._mark)
        zombies = {(one.pid, one.started): one.name for one in found.values() if one.state == "Z"}
        self._zombies.see(now, zombies)
        lab = self._cluster.lab
        for controller in lab.controllers:
            if controller.process is not None:
                self._process(now, f"controller {controller.host}", controller.process.pid)
        for host, agent in self._cluster.agents.items():
            self._process(now, f"agent of host {host}", agent.pid)
            for child in (one for one in found.values() if one.parent == agent.pid and one.state != "Z"):
                self._process(now, f"child of the agent of host {host}", child.pid)
            inside = [pid for pid in found if proc.namespace(pid) == proc.namespace(agent.pid) != ""]
            self._add(now, f"host {host}", "processes", len(inside))
            if (sockets := proc.listening(agent.pid)) is not None:
                self._add(now, f"host {host}", "listening sockets", sockets)
        shared = proc.shared(found)
        self.shared |= shared
        self._add(now, "all", "shared memory files", len(shared))
        self._add(now, "all", "temporary files", len(list(self._tmp.iterdir())))

    def _process(self, now: float, whose: str, pid: int) -> None:
        for what, value in (("descriptors", proc.descriptors(pid)), ("memory, KiB", proc.memory(pid))):
            if value:
                self._add(now, f"{whose} (pid {pid})", what, value)

    def _add(self, now: float, whose: str, what: str, value: float) -> None:
        self.figures.setdefault((whose, what), []).append((now, float(value)))


def left(mark: str, lab: str, folder: Path, tmp: Path, shared: set[str]) -> dict[str, frozenset[str]]:
    """What is there of the soak of this mark, and of the laboratory of this name and folder."""
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
    return {
        "processes": frozenset(
            f"pid {pid} ({one.name}: {proc.command(pid)})" for pid, one in proc.marked(mark).items()
        ),
        "network namespaces": frozenset(name for name in reaper.namespaces() if name.startswith(lab)),
        "links": frozenset(one["ifname"] for one in links if one["ifname"].startswith(lab)),
        "mounts": frozenset(reaper.mounts(str(folder))),
        "folders": frozenset({str(folder)} if folder.exists() else ()),
        "temporary files": frozenset(path.name for path in tmp.iterdir()),
        "shared memory files": frozenset(name for name in shared if Path(name).exists()),
    }


def settled(mark: str, seconds: float = 60.0) -> None:
    """Wait until no marked process is left but our own children's, or for so long."""
    deadline = time.monotonic() + seconds
    while proc.marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
