"""The embedded etcd as a process: a member that dies with its keeper."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from elaunch.rendezvous.binary import EtcdBinary
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio_view import NAME

# A single member waits one election timeout before it serves. With others it must not take a slow disk for a death.
_ALONE = ("--heartbeat-interval", "20", "--election-timeout", "200")
_TOGETHER = ("--heartbeat-interval", "100", "--election-timeout", "1000")
_SOCKET = "client:1"  # etcd wants even the name of a Unix socket to look like host:port
_PEER = "unix://peer:1"  # nobody will ever connect; on a Unix socket it can clash with nobody
NEEDED_SPACE = 128 << 20  # bytes; etcd sets aside two log segments of 64 MB
_MOST_READ = 1 << 18  # bytes of the log
# Sets PR_SET_PDEATHSIG to SIGTERM, takes all the open files that it may have, and becomes etcd. A program of its own,
# as code between fork and exec is unsafe in a process with threads.
_TRAMPOLINE = (
    "import ctypes, os, resource, sys\n"
    "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n"
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
    def members(self) -> Path:
        """Where the other members are (see home.py), while there are any."""
        return self.directory / "members.json"

    @property
    def log(self) -> Path:
        return self.directory / "etcd.log"

    @property
    def endpoint(self) -> str:
        return f"unix:{self.directory / _SOCKET}"

    def log_text(self) -> str:
        """The end of the log, empty if there is none."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _MOST_READ))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def last_words(self) -> str:
        """Why it ended, in one line, as far as the log tells."""
        text = self.complaint() or " | ".join(self.log_text().strip().splitlines()[-3:])[:800]
        return text or "it said nothing"

    def complaint(self) -> str:
        """What the log complains of last; empty if of nothing."""
        lines = self.log_text().splitlines()
        return next((text[:800] for line in reversed(lines) if (text := _complaint(line))), "")

    def free_space(self) -> int:
        """Bytes that are left where the data are."""
        try:
            return shutil.disk_usage(self.directory).free
        except OSError:
            return 0


def _complaint(line: str) -> str:
    """What a line of the log complains of: the error of a JSON line, the reason of a panic; else nothing."""
    if line.startswith(("panic: ", "runtime: failed", "runtime: out of")):
        return line
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("level") not in ("error", "panic", "fatal"):
        return ""
    more = [f"{key} {entry[key]}" for key in ("error", "current-limit", "recommended-limit") if key in entry]
    return ": ".join([str(entry.get("msg", "")), ", ".join(more)] if more else [str(entry.get("msg", ""))])


@dataclass(frozen=True, slots=True)
class Quarters:
    """Where a member listens (``address:port``; no ``listen``: on a Unix socket) and under what others know it.

    ``endpoint`` is for clients on other hosts. ``peer`` is its URL for other members; without one there never are any.
    ``cluster`` are the peer URLs of the cluster that it joins, its own included; none makes a cluster of its own.
    """

    listen: tuple[str, ...] = ()
    endpoint: str = ""
    listen_peer: str = ""
    peer: str = ""
    cluster: tuple[str, ...] = ()
    tls: Tls | None = None

    @property
    def name(self) -> str:
        return NAME + urlsplit(self.peer).netloc if self.peer else "embedded"

    def flags(self) -> list[str]:
        """etcd's own words for it."""
        scheme = "http" if self.tls is None else "https"
        clients = ",".join(f"{scheme}://{address}" for address in self.listen) or f"unix://{_SOCKET}"
        peer = self.peer or _PEER
        others = [f"other{number}={url}" for number, url in enumerate(self.cluster) if url != peer]
        return [
            *("--name", self.name, "--listen-client-urls", clients),
            *("--advertise-client-urls", f"{scheme}://{self.endpoint}" if self.endpoint else clients),
            *("--listen-peer-urls", f"{scheme}://{self.listen_peer}" if self.peer else _PEER),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", ",".join([f"{self.name}={peer}", *others])),
            *("--initial-cluster-state", "existing" if self.cluster else "new"),
            *("--initial-cluster-token", secrets.token_hex(8)),
            *(_TOGETHER if self.peer else _ALONE),
            *(_tls_options(self.tls) if self.tls is not None and self.listen else ()),
            *(_peer_tls_options(self.tls) if self.tls is not None and self.peer else ()),
        ]


def start(
    binary: EtcdBinary, layout: Layout, quarters: Quarters, *, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start etcd on the data of ``layout``.

    It inherits ``keep_open``: a lock on such a file lasts until etcd too is gone.
    """
    command = [
        *(str(binary.path), "--data-dir", str(layout.data), *quarters.flags()),
        *("--auto-compaction-mode", "revision", "--auto-compaction-retention", "10000"),
        *("--logger", "zap", "--log-level", "warn"),
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


def _tls_options(tls: Tls) -> tuple[str, ...]:
    own = ("--cert-file", str(tls.cert), "--key-file", str(tls.key))
    return own if tls.ca is None else (*own, "--client-cert-auth", "--trusted-ca-file", str(tls.ca))


def _peer_tls_options(tls: Tls) -> tuple[str, ...]:
    """Always mutual: every member has a certificate. A member may call from another address than it is called at."""
    return (
        *("--peer-cert-file", str(tls.cert), "--peer-key-file", str(tls.key)),
        *("--peer-client-cert-auth", "--peer-trusted-ca-file", str(tls.authority)),
        "--experimental-peer-skip-client-san-verification",
    )


def stop(etcd: subprocess.Popen[bytes], grace: float = 5.0) -> None:
    """Ask etcd to end, and end it after ``grace`` seconds."""
    etcd.send_signal(signal.SIGTERM)
    try:
        etcd.wait(grace)
    except subprocess.TimeoutExpired:
        etcd.kill()
        etcd.wait()
