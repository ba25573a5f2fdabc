"""The embedded etcd as a process: a single member that dies with its keeper."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elaunch.rendezvous.binary import EtcdBinary

# A single member waits one election timeout before it serves.
_TIMING = ("--heartbeat-interval", "20", "--election-timeout", "200")
_SOCKET = "client:1"  # etcd wants even the name of a Unix socket to look like host:port
_PEER = "unix://peer:1"  # nobody will ever connect; on a Unix socket it can clash with nobody
# Sets PR_SET_PDEATHSIG to SIGTERM and becomes etcd. A program of its own, as code between fork and exec is
# unsafe in a process with threads.
_TRAMPOLINE = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 15)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the etcd of ``directory`` keeps its things."""

    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "etcd.log"

    @property
    def endpoint(self) -> str:
        return f"unix:{self.directory / _SOCKET}"

    def last_words(self) -> str:
        """The last lines of the log, as one."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "it left no log"
        return " | ".join(text.strip().splitlines()[-3:])[-800:] or "it said nothing"


def start(
    binary: EtcdBinary, layout: Layout, listen: Sequence[str], *, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start etcd on the data of ``layout``, listening on each ``address:port``, without any on a Unix socket.

    It inherits ``keep_open``: a lock on such a file lasts until etcd too is gone.
    """
    urls = ",".join(f"http://{address}" for address in listen) or f"unix://{_SOCKET}"
    command = [
        *(str(binary.path), "--name", "embedded", "--data-dir", str(layout.data)),
        *("--listen-client-urls", urls, "--advertise-client-urls", urls),
        *("--listen-peer-urls", _PEER, "--initial-advertise-peer-urls", _PEER),
        *("--initial-cluster", f"embedded={_PEER}", "--initial-cluster-token", secrets.token_hex(8)),
        *("--auto-compaction-mode", "revision", "--auto-compaction-retention", "10000"),
        *("--logger", "zap", "--log-level", "warn"),
        *_TIMING,
    ]
    with layout.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), *command],
            cwd=layout.directory,
            env={name: value for name, value in os.environ.items() if not name.startswith("ETCD_")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=keep_open,
        )


def stop(etcd: subprocess.Popen[bytes], grace: float = 5.0) -> None:
    """Ask etcd to end, and end it after ``grace`` seconds."""
    etcd.send_signal(signal.SIGTERM)
    try:
        etcd.wait(grace)
    except subprocess.TimeoutExpired:
        etcd.kill()
        etcd.wait()
