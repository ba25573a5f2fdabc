"""Where an embedded etcd keeps its data, and where the processes of one host meet over it."""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from elaunch.errors import UsageError


def default_state_dir(job: str, port: int) -> Path:
    """The directory of a named job's etcd: it outlives the job, so that generation numbers never repeat."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "elaunch" / f"{quote(job, safe='')[:150]}-{port}"


@dataclass(frozen=True, slots=True)
class Meeting:
    """The place of one user's processes of this host that want an etcd on one port.

    Not below TMPDIR, which differs between the shells and job steps of a host.
    """

    port: int

    @property
    def _directory(self) -> Path:
        return Path(f"/tmp/elaunch-{os.getuid()}")

    @property
    def socket(self) -> Path:
        """The keeper's socket."""
        return self._directory / f"{self.port}.sock"

    def try_lock(self) -> int | None:
        """The right to be the keeper, as a file descriptor, or None if it is taken. Its heirs hold it too."""
        self._make_directory()
        lock = os.open(self._directory / f"{self.port}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        found = self._directory.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
            raise UsageError(f"rendezvous: {self._directory} is not a directory that only you can write; remove it")
