"""The processes of one measurement: started under a mark in their environment, all ended by pid."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")
MARK = "ELAUNCH_BENCH"
ROOT = Path(__file__).resolve().parents[1]


class NotInTimeError(Exception):
    """What was waited for did not come."""


def wait_for(what: str, condition: Callable[[], T | None], seconds: float) -> T:
    """The first value of ``condition`` that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise NotInTimeError(f"{what}: not in {seconds:.0f} s")
        time.sleep(0.005)
    return value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Processes:
    """Starts processes in ``folder``, which is theirs for state, temporary files and output."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.started: list[subprocess.Popen[bytes]] = []
        (folder / "out").mkdir(parents=True)
        (folder / "tmp").mkdir()

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        here = {
            MARK: self.mark,
            "OUT": str(self.out),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # torchrun's restarts with Gloo fail without it
        }
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **here},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def alive(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> None:
        """SIGKILL all that was started here and whatever came of it, until nothing is left."""
        deadline = time.monotonic() + 10
        while (left := self.alive()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        for started in self.started:
            started.wait(10)
