"""A process beside an agent that holds others stopped, all the time or in pulses, and files changed, and undoes it.

    python holding.py

Standard input has a line of JSON for each hold: ``{"id": 1, "pids": [[pid, started], ...], "share": 0.3, "period": 0.2,
"seconds": 5, "files": [[path, during, after], ...]}``: the processes are stopped for ``1 - share`` of each period, the
files have ``during`` in that time. ``{"id": 1, "undo": true}`` ends it before. It is over after ``seconds`` (0: never),
or with the last of its processes; then, or when it was undone, ``over 1`` is written. A process goes on, and a file is
as it was, when no hold is left that wants it otherwise. At SIGTERM, and when standard input ends, which is when whoever
started it is gone, all is undone. Nothing but the standard library is used, and nothing of elaunch imported: it starts
at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

NEVER = float("inf")


class Hold:
    """One wish, from now on. ``ends`` are descriptors that are readable once its processes have ended."""

    def __init__(self, wish: dict[str, Any], now: float) -> None:
        self.id = wish["id"]
        self.pids = [tuple(pid) for pid in wish.get("pids", ())]
        self.files = [tuple(file) for file in wish.get("files", ())]
        self.ends = {handle for pid, _ in self.pids if (handle := opened(pid)) is not None}
        self.until: float = now + wish["seconds"] if wish["seconds"] else NEVER
        self._began = now
        self._share: float = wish.get("share", 0.0)
        self._period: float = wish.get("period", 0.2)

    def over(self, now: float) -> bool:
        return now >= self.until or bool(self.pids and not self.ends)

    def wants(self, now: float) -> bool:
        """Whether it wants them stopped now: at the beginning of each pulse."""
        return self._share <= 0 or (now - self._began) % self._period < self._period * (1 - self._share)

    def next(self, now: float) -> float:
        """When that changes, or it is over."""
        if self._share <= 0:
            return self.until
        into = (now - self._began) % self._period
        turn = self._period * (1 - self._share)
        return min(self.until, now + (turn - into if into < turn else self._period - into))

    def close(self) -> None:
        for handle in self.ends:
            os.close(handle)


class Holder:
    """All holds. ``stopped`` and ``changed`` are what is not as it would be without them."""

    def __init__(self) -> None:
        self.holds: dict[int, Hold] = {}
        self.undone: list[int] = []
        self.stopped: set[tuple[int, int]] = set()
        self.changed: dict[str, tuple[str, str]] = {}

    def hear(self, line: bytes) -> None:
        wish = json.loads(line)
        if wish.get("undo"):
            if wish["id"] in self.holds:
                self.undone.append(wish["id"])
            self.end(wish["id"])
        else:
            self.holds[wish["id"]] = Hold(wish, time.monotonic())

    def end(self, number: int) -> None:
        if (hold := self.holds.pop(number, None)) is not None:
            hold.close()

    def step(self) -> float:
        """Do what is to be done now; how many seconds there is nothing to do then."""
        now = time.monotonic()
        over = [hold.id for hold in self.holds.values() if hold.over(now)]
        for number in over:
            self.end(number)
        active = [hold for hold in self.holds.values() if hold.wants(now)]
        self.apply(
            {pid for hold in active for pid in hold.pids},
            {path: (during, after) for hold in active for path, during, after in hold.files},
        )
        undone, self.undone = [*self.undone, *over], []
        for number in undone:  # now that it is
            print(f"over {number}", flush=True)
        return max(0.0, min((hold.next(now) for hold in self.holds.values()), default=NEVER) - time.monotonic())

    def apply(self, pids: set[tuple[int, int]], files: dict[str, tuple[str, str]]) -> None:
        """Have these stopped and these changed, and nothing else.

        What is to be undone is noted before it is done: SIGTERM may come in between.
        """
        old, new = self.stopped, pids - self.stopped
        self.stopped = old | pids
        for pid in new:
            send(pid, signal.SIGSTOP)
        for pid in old - pids:
            send(pid, signal.SIGCONT)
        self.stopped = pids
        written = {path for path, (during, _) in files.items() if self.changed.get(path, ("",))[0] == during}
        gone = [path for path in self.changed if path not in files]
        self.changed = {**self.changed, **files}
        for path in [path for path in files if path not in written]:  # in their order: whoever looks may look meanwhile
            write(path, files[path][0])
        for path in gone:
            write(path, self.changed[path][1])
        self.changed = files

    def ended(self, handle: int) -> None:
        """A process has ended."""
        for hold in self.holds.values():
            if handle in hold.ends:
                hold.ends.remove(handle)
                os.close(handle)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    holder, buffer = Holder(), b""
    try:
        while True:
            seconds = min(holder.step(), 3600.0)
            ends = [handle for hold in holder.holds.values() for handle in hold.ends]
            readable, _, _ = select.select([0, *ends], [], [], seconds)
            for handle in readable:
                if handle:
                    holder.ended(handle)
            if 0 in readable:
                if not (read := os.read(0, 65536)):
                    return
                *lines, buffer = (buffer + read).split(b"\n")
                for line in lines:
                    holder.hear(line)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        holder.apply(set(), {})


def undo(wish: dict[str, Any]) -> None:
    """What a holder that was killed has left of this hold: its processes go on, its files are as they were."""
    for pid, started in wish.get("pids", ()):
        send((pid, started), signal.SIGCONT)
    for path, _, after in wish.get("files", ()):
        write(path, after)


def opened(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def send(process: tuple[int, int], number: int) -> None:
    """Signal a process that began at this moment; another that has its pid now gets nothing."""
    pid, started = process
    handle = opened(pid)
    if handle is None:
        return
    try:
        if start_of(pid) == started:  # asked now that the descriptor is of one process, whatever has its pid later
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def write(path: str, text: str) -> None:
    """The whole of a file at once, if it can be written."""
    beside = f"{path}.new"
    try:
        with open(beside, "w") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError:
        return


def start_of(pid: int) -> int:
    """In clock ticks since boot; -1 where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return -1
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


if __name__ == "__main__":
    main()
