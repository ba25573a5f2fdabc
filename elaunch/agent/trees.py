"""Process trees, as /proc shows them: who descends from whom, in which state, and how to signal it safely."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PF_EXITING = 0x4  # of the flags in /proc/PID/stat
_POLL_SECONDS = 0.005

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Process:
    """One process. ``state`` is its letter in /proc/PID/stat, ``started`` in clock ticks since boot.

    ``exiting``: it runs none of its program any more, and is only being taken down.
    """

    pid: int
    parent: int
    state: str
    started: int
    exiting: bool = False

    @property
    def zombie(self) -> bool:
        return self.state in "ZX"

    @property
    def stopped(self) -> bool:
        """Stopped by a signal or a debugger: it cannot answer a polite signal."""
        return self.state in "Tt"


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, so that none can get away. Raises OSError."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Have the kernel SIGKILL this process when its parent, of that pid, ends; at once if it has already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def process(pid: int) -> Process | None:
    """What /proc says of a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name stands in parentheses and may hold spaces and parentheses itself.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), fields[0].decode(), int(fields[19]), bool(int(fields[6]) & _PF_EXITING))


def snapshot() -> dict[int, Process]:
    """All processes of this PID namespace. Not atomic: a process forked meanwhile may be missing."""
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {p.pid: p for p in found if p is not None}


def descendants(root: int, table: Mapping[int, Process], spare: Collection[int] = ()) -> list[Process]:
    """The live processes below ``root``, parents first, without those in ``spare`` and what is below them."""
    children: dict[int, list[Process]] = {}
    for p in table.values():
        children.setdefault(p.parent, []).append(p)
    below: list[Process] = []
    queue = [root]
    for pid in queue:
        found = [p for p in children.get(pid, ()) if p.pid not in spare]
        below.extend(found)
        queue.extend(p.pid for p in found)
    return [p for p in below if not p.zombie]


def below(root: int, spare: Collection[int] = ()) -> list[Process]:
    """As ``descendants``, by walking down from ``root``: the cost is the tree's, not the machine's.

    Not atomic either: what was forked or orphaned meanwhile is found by the next look.
    """
    if not _LISTS_CHILDREN:
        return descendants(root, snapshot(), spare)
    found: list[Process] = []
    queue = [root]
    for pid in queue:
        for child in _children(pid):
            p = process(child) if child not in spare else None
            if p is not None:
                found.append(p)
                queue.append(child)
    return [p for p in found if not p.zombie]


def children(pid: int) -> list[int]:
    """The direct children of a process, zombies included.

    Not atomic, but one that is a child all the while is among them. Needs ``shows_children``.
    """
    if _LISTS_CHILDREN:
        return _children(pid)
    return [p.pid for p in snapshot().values() if p.parent == pid]


def shows_children() -> bool:
    """Whether /proc shows all children of this process, also those that have become another user's."""
    if _LISTS_CHILDREN:
        return True
    try:
        with open("/proc/self/mountinfo") as file:
            return not any(line.split()[4] == "/proc" and "hidepid=" in line for line in file)
    except OSError:
        return False


_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children(pid: int) -> list[int]:
    """The children of all threads of a process; none of one that is gone."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def send(target: Process, signum: int) -> bool:
    """Signal exactly this process, never another that was given its number. False if it is gone."""
    try:
        handle = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    try:
        now = process(target.pid)
        if now is None or now.started != target.started:
            return False
        signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def kill_all(find: Callable[[], Iterable[Process]], bound: float) -> list[Process]:
    """SIGKILL what ``find`` finds until it finds nothing, for at most ``bound`` seconds; returns the rest.

    Those of them that are children of this process are reaped.
    """
    give_up = time.monotonic() + bound
    killed: set[int] = set()
    while left := list(find()):
        if time.monotonic() > give_up:
            return left
        for p in left:
            send(p, signal.SIGKILL)
            killed.add(p.pid)
        time.sleep(_POLL_SECONDS)
        _reap(killed)
    _reap(killed)
    return []


def exit_code(pid: int) -> int | None:
    """How this child of ours ended, -n for signal n; None where it has not, is known already, or is no child of ours.

    It is reaped.
    """
    with contextlib.suppress(ChildProcessError):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
    return None


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")
