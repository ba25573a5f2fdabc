"""One rank, as its page and /proc show it, with ages by this process's clock: a rank's own is not trusted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from dataclasses import dataclass, field

from elaunch.agent.traffic import Traffic
from elaunch.beat_record import Beat
from elaunch.progress import RankProgress
from elaunch.progress_page import OpenSection, Page

_TICKS = os.sysconf("SC_CLK_TCK")
_NO_BEAT = Beat(0)
_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True, slots=True)
class RankFiles:
    """Descriptors of what one rank shares with the agent: its page, its stacks, torch's flight record."""

    page: int
    stacks: int
    flight: int

    @classmethod
    def make(cls, local_rank: int) -> RankFiles:
        """Empty ones. Raises OSError."""
        with contextlib.ExitStack() as undo:
            fds = []
            for name in ("page", "stacks", "flight"):
                fds.append(os.memfd_create(f"elaunch-{name}-{local_rank}"))
                undo.callback(os.close, fds[-1])
            undo.pop_all()
        return cls(*fds)

    def close(self) -> None:
        for fd in (self.page, self.stacks, self.flight):
            os.close(fd)


@dataclass(slots=True)
class _Since:
    """Since when a value is what it is."""

    value: object = None
    at: float = 0.0

    def age(self, value: object, now: float) -> float:
        """Seconds since ``value`` was first seen; 0 where it is another than before."""
        if value != self.value:
            self.value, self.at = value, now
        return max(0.0, now - self.at)


@dataclass(slots=True)
class Sight:
    """What has been seen of one rank. ``pid`` is the process that was started for it, ``fd`` the page's descriptor."""

    rank: int
    local_rank: int
    page: Page
    fd: int
    pid: int = 0
    _ages: dict[str, _Since] = field(default_factory=dict)
    _sections: dict[tuple[int, int], float] = field(default_factory=dict)
    _traffic: Traffic = field(default_factory=Traffic)

    def look(self, now: float) -> RankProgress | None:
        """The rank now; None where its process is gone. ``now`` in seconds of the monotonic clock."""
        found = _stat(self.pid) if self.pid else None
        if found is None:
            return None
        writer = self.writer()
        if writer is None:
            age = self._age("started", self.pid, now)
            return RankProgress(self.rank, self.local_rank, self.pid, found[0], cpu_seconds=found[1], progress_age=age)
        state, cpu_seconds = (_stat(writer) or found) if writer != self.pid else found
        if self.page.silent:
            return RankProgress(self.rank, self.local_rank, writer, state, cpu_seconds=cpu_seconds)
        beat = self.page.beat() or _NO_BEAT
        sections = self.page.sections()
        step = max(self.page.step, -1)
        numbers = tuple((group.name, group.started, group.finished) for group in beat.groups)
        return RankProgress(
            rank=self.rank,
            local_rank=self.local_rank,
            pid=writer,
            state=state,
            attached=True,
            beat_age=self._age("beat", (writer, beat.beats), now),
            cpu_seconds=cpu_seconds,
            step=step,
            step_age=self._age("step", step, now),
            section=sections[-1].name if sections else "",
            section_left=self._left(writer, sections, now),
            where=beat.where,
            where_age=self._age("where", (beat.moves, beat.where, self._traffic.look(writer, now)), now),
            progress_age=self._age("progress", (step, tuple(s.number for s in sections), numbers), now),
            own_seconds=beat.own_seconds,
            waited_seconds=beat.waited_seconds,
            groups=beat.groups,
            stopping=bool(self.page.stopping),
        )

    def writer(self) -> int | None:
        """The process that has claimed the page, the rank's own or one below it, as the kernel tells; None if none."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, holder = _FLOCK.unpack_from(fcntl.fcntl(self.fd, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else holder or self.pid  # 0: a process of another pid namespace

    def _age(self, name: str, value: object, now: float) -> float:
        return self._ages.setdefault(name, _Since()).age(value, now)

    def _left(self, writer: int, sections: tuple[OpenSection, ...], now: float) -> float | None:
        """Of the shortest deadline of all open sections, whichever is innermost."""
        begun = {(writer, s.number): self._sections.get((writer, s.number), now) for s in sections}
        self._sections = begun
        left = [s.timeout - (now - begun[writer, s.number]) for s in sections if s.timeout is not None]
        return min(left, default=None)


def _stat(pid: int) -> tuple[str, float] | None:
    """The state's letter and the seconds of CPU time of a process; None if there is none."""
    fields = _fields(pid)
    return (fields[0].decode(), (int(fields[11]) + int(fields[12])) / _TICKS) if fields else None


def _fields(pid: int) -> list[bytes]:
    """Of /proc/PID/stat, from the state on."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        stat = os.read(fd, 1024)
    except ProcessLookupError:
        return []
    finally:
        os.close(fd)
    return stat[stat.rindex(b")") + 2 :].split()
