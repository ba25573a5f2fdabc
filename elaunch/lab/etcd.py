"""etcd members of a laboratory, each on a host of its own, with a disk of its own that can be filled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elaunch.lab.network import Network
from elaunch.rendezvous.embedded import find_etcd

PORT, PEER = 2379, 2380
_DISK = 300 << 20  # bytes
_READY = 60.0
_FILLER = "filler"


@dataclass
class EtcdMember:
    """One member; ``host`` is that of a network. ``endpoint`` is where its clients connect."""

    net: Network
    host: str
    cluster: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.net.control(self.host)}:{PORT}"

    @property
    def disk(self) -> Path:
        """A file system of its own."""
        return self.net.folder / f"disk-{self.host}"

    @property
    def log(self) -> Path:
        return self.net.folder / f"{self.host}.log"

    def start(self, ahead: float = 0.0) -> None:
        """Start it, or again; its clocks that nobody can set are ``ahead`` by so many seconds."""
        if not self.disk.exists():
            self.disk.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "lab", str(self.disk)]
            subprocess.run(mount, check=True, capture_output=True, timeout=20)
        address = self.net.control(self.host)
        peers = ",".join(f"{host}=http://{self.net.control(host)}:{PEER}" for host in self.cluster)
        client, peer = f"http://{address}:{PORT}", f"http://{address}:{PEER}"
        words = [
            *("--name", self.host, "--data-dir", str(self.disk / "data"), "--initial-cluster", peers),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
        ]
        jump = ["unshare", "--time", "--monotonic", str(int(ahead)), "--boottime", str(int(ahead))] if ahead else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.net.at(self.host), *jump, str(find_etcd().path), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def ready(self, seconds: float = _READY) -> None:
        """Wait until it listens. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while not self._listens():
            if time.monotonic() > deadline or self.process is None or self.process.poll() is not None:
                raise TimeoutError(f"etcd {self.host} does not serve:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def fill(self) -> None:
        """Leave no byte on its disk."""
        try:
            with (self.disk / _FILLER).open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            pass
        try:
            with (self.disk / f"{_FILLER}2").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError:
            return

    def empty(self) -> None:
        """Undo that."""
        for name in (_FILLER, f"{_FILLER}2"):
            (self.disk / name).unlink(missing_ok=True)

    def _signal(self, signum: int) -> None:
        """To it and its child. Once it is reaped, its pid may be another's."""
        if self.process is None or self.process.poll() is not None:
            return
        for pid in _below(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        self.process.send_signal(signum)

    def _listens(self) -> bool:
        try:
            with socket.create_connection((self.net.control(self.host), PORT), 1):
                return True
        except OSError:
            return False


def _below(pid: int) -> list[int]:
    """The children of a process: unshare --time forks."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
