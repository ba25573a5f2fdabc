"""Dedicated controllers of a laboratory, each on a host of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import elaunch
from elaunch.lab.network import Network

TTL = 2
PORT = 7070
_READY = 60.0


@dataclass
class LabController:
    """One controller on ``host``; ``etcd`` are the endpoints of the members."""

    net: Network
    host: str
    etcd: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    _begin: int = field(default=0, init=False)  # of what the present process has logged

    @property
    def log(self) -> Path:
        return self.net.folder / f"{self.host}.log"

    def start(self) -> None:
        address = self.net.control(self.host)
        argv = [
            *self.net.at(self.host),
            *(sys.executable, "-m", "elaunch", "controller", f"--etcd={','.join(self.etcd)}"),
            *(f"--lease-ttl={TTL}", f"--listen={address}:{PORT}", f"--local-addr={address}"),
        ]
        with self.log.open("ab") as log:
            self._begin = log.tell()
            self.process = subprocess.Popen(
                argv, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ready(self, seconds: float = _READY) -> None:
        """Wait until it stands by. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while b"standing_by" not in self.log.read_bytes()[self._begin :]:
            if time.monotonic() > deadline or self.process is None or self.process.poll() is not None:
                raise TimeoutError(f"controller {self.host} does not stand by:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, signum: int) -> None:
        if self.process is not None:
            self.process.send_signal(signum)


def environment(**more: str) -> dict[str, str]:
    """With which this very elaunch is found by a Python that is started anew."""
    root = str(Path(elaunch.__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}
