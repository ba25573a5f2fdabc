"""Where an embedded etcd keeps its data, and where the processes of one host meet over it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from elaunch.errors import UsageError


def default_state_dir(job: str, port: int, address: str = "") -> Path:
    """The directory of a named job's etcd: it outlives the job, so that generation numbers never repeat.

    A member that joins has one by its ``address``: a home may be shared by all hosts.
    """
    given = os.environ.get("XDG_STATE_HOME")
    base = Path(given).expanduser() / "elaunch" if given else _state_of_user()
    return base / "-".join([quote(job, safe="")[:150], str(port), *([quote(address, safe="")] if address else [])])


def _state_of_user() -> Path:
    """Below the user's home. A container's user may have none, or one that is read-only: then below /tmp."""
    with contextlib.suppress(RuntimeError):
        base = Path.home() / ".local" / "state" / "elaunch"
        there = next(place for place in (base, *base.parents) if os.path.exists(place))  # without an error of its own
        if os.access(there, os.W_OK):
            return base
    return _own_folder() / "state"


def _own_folder() -> Path:
    return Path(f"/tmp/elaunch-{os.getuid()}")


def _make_own_folder() -> None:
    """What this user's processes of a host share. Raises UsageError where another user can write there."""
    folder = _own_folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise UsageError(f"rendezvous: {folder} is not a directory that only you can write; remove it")


@dataclass(frozen=True, slots=True)
class SavedState:
    """A job's last state, byte for byte as it stood in etcd; it outlives etcd's data."""

    path: Path

    def read(self) -> bytes | None:
        """None if nothing was ever saved."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, value: bytes) -> None:
        """Replace what was saved, at once or not at all."""
        draft = self.path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


@dataclass(frozen=True, slots=True)
class SavedMembers:
    """Where else a job's etcd is, by the member that ran here; there only while it has others."""

    path: Path

    def read(self) -> tuple[int, tuple[str, ...]]:
        """The cluster's id and the endpoints of all members; 0 and none if there were no others."""
        try:
            data = json.loads(self.path.read_text())
            return int(data["cluster"], 16), tuple(str(endpoint) for endpoint in data["endpoints"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ()

    def write(self, cluster: int, endpoints: Sequence[str]) -> None:
        """Raises OSError."""
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps({"cluster": f"{cluster:x}", "endpoints": list(endpoints)}))
        draft.replace(self.path)

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Meeting:
    """The place of one user's processes of this host that want an etcd on one port.

    Not below TMPDIR, which differs between the shells and job steps of a host. ``address`` tells apart what is a host
    of its own on one machine: a loopback address other than the usual one.
    """

    port: int
    address: str = ""

    @property
    def _name(self) -> str:
        # A network namespace has ports of its own, and may share /tmp.
        return "-".join([str(self.port), str(_network()), *([self.address] if self.address else [])])

    @property
    def socket(self) -> Path:
        """The keeper's socket."""
        return _own_folder() / f"{self._name}.sock"

    def try_lock(self) -> int | None:
        """The right to be the keeper, as a file descriptor, or None if it is taken. Its heirs hold it too."""
        _make_own_folder()
        lock = os.open(_own_folder() / f"{self._name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock


def _network() -> int:
    """What tells this process's network namespace apart."""
    try:
        return os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return 0
