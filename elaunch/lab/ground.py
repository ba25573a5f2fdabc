"""A piece of this machine for one laboratory: a name, addresses and a folder that no other has, and their end."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elaunch.lab import reaper

PREFIX = "elb"
NUMBERS = range(100, 200)  # of the networks 10.N.0.0/16
_PATIENCE = 60.0  # seconds for a process of a laboratory to answer, or to end


class NoGroundError(RuntimeError):
    """This machine cannot have one more laboratory."""


def answer(process: subprocess.Popen[Any]) -> str:
    """The line with which it answers, "" where it has ended. Raises TimeoutError."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _PATIENCE)[0]:
        raise TimeoutError(f"process {process.pid} of a laboratory does not answer")
    line = process.stdout.readline()
    return line if isinstance(line, str) else line.decode()


def impossible() -> str:
    """Why this machine cannot have a laboratory; empty where it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [tool for tool in ("ip", "nsenter", "unshare", "mount", "ss") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if not Path("/proc/sys/net/ipv6").is_dir():
        return "needs a kernel with IPv6: crossed cables are found by its addresses"
    return _refused()


# In a mount namespace of its own: nothing of it is left, whenever whoever asks is killed.
_PROBE = """
mount -t tmpfs lab /run
ip netns add probe || exit 3
exec nsenter --net=/run/netns/probe unshare --mount --uts mount -t sysfs lab /mnt
"""


def _refused() -> str:
    """What this machine's kernel lets nobody do, in words."""
    argv = ["unshare", "--mount", "sh", "-c", _PROBE]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"this machine makes no network namespaces: {error}"
    told = " ".join(done.stderr.split())[-200:]
    if done.returncode == 3:
        return f"this machine makes no network namespaces: {told}"
    return f"this machine lets nobody mount /sys anew: {told}" if done.returncode else ""


def ip(*words: str) -> str:
    """What ``ip`` says. Raises CalledProcessError."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout


@dataclass
class Ground:
    """``name`` begins the names of all that is made, ``net`` is ``10.N``, ``folder`` is for files."""

    name: str
    net: str
    folder: Path
    lock: socket.socket
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """Have all of it taken away, and wait until it is; where its reaper is stopped or gone, all the same."""
        try:
            if self.process.stdin is not None:
                self.process.stdin.close()
            if self._reaped():
                reaper.take_away(self.name, str(self.folder))
        finally:
            self.lock.close()

    def _reaped(self) -> int:
        """The exit code of the reaper."""
        self.process.send_signal(signal.SIGCONT)
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(_PATIENCE)


def claim() -> Ground:
    """A free one; its reaper runs. Raises NoGroundError, OSError."""
    _sweep()
    start = os.getpid() % len(NUMBERS)
    for number in (*NUMBERS[start:], *NUMBERS[:start]):
        if (lock := _locked(number)) is None:
            continue
        try:
            # The addresses may be another program's; the folder may be in somebody's way whom we cannot remove.
            made = None if f" 10.{number}." in ip("-4", "addr", "show") else _begin(number, lock)
        except BaseException:
            lock.close()
            raise
        if made is not None:
            return made
        lock.close()
    raise NoGroundError(f"all of {len(NUMBERS)} networks for laboratories are taken")


def _locked(number: int) -> socket.socket | None:
    """A lock on the addresses and names of this number: where these are, in this network namespace, whatever TMPDIR."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0elaunch-lab-{number}")
    except OSError:
        lock.close()
        return None
    return lock


def _sweep() -> None:
    """Take away what was left by laboratories that were killed, and whose reapers were killed or stopped too."""
    there = reaper.reapers()
    for pid, maker in there.values():
        if not Path(f"/proc/{maker}").exists():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
    names = [*reaper.namespaces(), *reaper.links()]
    for number in NUMBERS:
        name = _name(number)
        if name in there or not any(one.startswith(name) for one in names):
            continue
        if (lock := _locked(number)) is not None:
            with lock:
                reaper.take_away(name, str(_folder(name)))


def _begin(number: int, lock: socket.socket) -> Ground | None:
    """None where its folder is taken. Raises OSError."""
    name = _name(number)
    folder = _folder(name)
    reaper.take_away(name, str(folder))
    argv = [sys.executable, "-S", "-E", reaper.__file__, name, str(folder), str(os.getpid())]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, pass_fds=(lock.fileno(),)
    )
    try:
        said = answer(process).strip()
    except TimeoutError:
        said = ""
        process.kill()
    finally:
        assert process.stdout is not None
        process.stdout.close()
    if said == "ready":
        return Ground(name, f"10.{number}", folder, lock, process)
    assert process.stdin is not None
    process.stdin.close()
    code = process.wait(_PATIENCE)
    if said == "taken":
        return None
    raise NoGroundError(f"a laboratory's reaper ended with {code} at its begin: is there room in {folder.parent}?")


def _name(number: int) -> str:
    return f"{PREFIX}{number}n"


def _folder(name: str) -> Path:
    return Path(tempfile.gettempdir(), f"elaunch-{name}")
