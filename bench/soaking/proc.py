"""What /proc says, of processes that carry our mark in their environment: all that the soak has started."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "ELAUNCH_SOAK"
_LISTENING = "0A"
_PAGE = os.sysconf("SC_PAGESIZE") >> 10  # KiB


@dataclass(frozen=True, slots=True)
class Process:
    """``started`` in ticks: with the pid it is no other process."""

    pid: int
    started: int
    parent: int
    state: str
    name: str


def process(pid: int) -> Process | None:
    """None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name, fields = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
    return Process(pid, int(fields[19]), int(fields[1]), fields[0], name)


def lives(pid: int, started: int) -> bool:
    """Whether this very process is there, and no zombie; stopped is alive."""
    found = process(pid)
    return found is not None and found.started == started and found.state not in "ZX"


def marked(mark: str) -> dict[int, Process]:
    """All that carry the mark, and zombies among their children."""
    everybody = [one for name in os.listdir("/proc") if name.isdigit() and (one := process(int(name))) is not None]
    wanted = f"{MARK}={mark}".encode()
    found = {one.pid: one for one in everybody if wanted in _environment(one.pid)}
    zombies = {one.pid: one for one in everybody if one.state == "Z" and one.parent in found}
    return found | zombies


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def descriptors(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def memory(pid: int) -> int | None:
    """KiB that are resident; None where there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return None


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:160]
    except OSError:
        return ""


def listening(pid: int) -> int | None:
    """Sockets that listen in the network namespace of a process."""
    try:
        lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
    except OSError:
        return None
    return sum(line.split()[3] == _LISTENING for line in lines if ":" in line.split()[0])


def shared(pids: Iterable[int]) -> set[str]:
    """Files in /dev/shm that these processes have mapped."""
    found: set[str] = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            continue
        found |= {line.split(None, 5)[5] for line in lines if "/dev/shm/" in line}
    return {name for name in found if Path(name).exists()}


def namespace(pid: int) -> str:
    """Of the network."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""
