"""From hosts and wishes to command lines: how each host is asked, where the hosts meet, what each is to run."""

from __future__ import annotations

import fnmatch
import os
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elaunch.hosts.host_file import Host
from elaunch.hosts.words import Hello
from elaunch.schedulers.slurm import FIRST_PORT, PORTS

FAR_END = "elaunch.agent.far_end"
MEETING_HOSTS = 3  # as many as an embedded etcd has members
# Options of elaunch, and what stands in for some of them.
ALWAYS = ("PET_*", "ELAUNCH_ETCD_PASSWORD", "ELAUNCH_LOG_*", "ELAUNCH_TLS_*", "ELAUNCH_TOKEN_FILE")
PLACE_VARIABLE = "ELAUNCH_PLACE"
_CANDIDATES = 5
_ALIVE = 10  # seconds between ssh's own questions whether the host is there
_LOST = 3  # of them without an answer
_STRIDE = 3167  # between ports that are tried


@dataclass(frozen=True, slots=True)
class Ways:
    """How hosts are reached. ``options`` are ssh's own, which come first and so win; ``timeout`` is for connecting, in
    seconds. ``python`` and ``path`` (PYTHONPATH) are those on the hosts.
    """

    python: str
    path: str = ""
    options: tuple[str, ...] = ()
    timeout: int = 15
    ssh: str = "ssh"


def candidates(job: str) -> tuple[int, ...]:
    """Ports at which the hosts of this job may meet: the same wherever they are asked for."""
    first = zlib.crc32(job.encode(errors="surrogateescape"))
    return tuple(FIRST_PORT + (first + step * _STRIDE) % PORTS for step in range(_CANDIDATES))


def command_of(host: Host, ways: Ways, nonce: str, ports: Sequence[int], log: str) -> list[str]:
    """The command that leads to a host; what ssh itself has to say goes to the file ``log``."""
    asked = [str(port) for port in ports]
    if host.here:
        return [ways.python, "-m", FAR_END, nonce, *asked]
    path = ["env", f"PYTHONPATH={ways.path}"] if ways.path else []
    far = ["exec", *path, ways.python, "-m", FAR_END, nonce, *asked]
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": ways.timeout,
        "ServerAliveInterval": _ALIVE,
        "ServerAliveCountMax": _LOST,
        "ClearAllForwardings": "yes",
        "ControlPath": "none",
        "RemoteCommand": "none",
    }
    options = [*ways.options, *(f"{name}={value}" for name, value in settings.items())]
    port = ["-p", str(host.port)] if host.port is not None else []
    words = [word for option in options for word in ("-o", option)]
    return [ways.ssh, "-T", "-x", "-E", log, *words, *port, "--", host.target, shlex.join(far)]


def meeting_port(ports: Sequence[int], hellos: Sequence[Hello]) -> int | None:
    """The first port that is free on all of the hosts where etcd may have a member; None where none is."""
    where = hellos[:MEETING_HOSTS]
    return next((port for port in ports if all(port in hello.free for hello in where)), None)


def endpoints(hosts: Sequence[Host], hellos: Sequence[Hello], port: int) -> tuple[str, ...]:
    """``host:port`` of the first hosts, as the others reach them. The first starts the embedded etcd."""
    peers = [hello.peer for hello in hellos if hello.peer]
    found = []
    for host, hello in list(zip(hosts, hellos, strict=True))[:MEETING_HOSTS]:
        # This machine is reached where the other hosts have seen it come from.
        address = host.address or hello.address or (peers[0] if peers else "127.0.0.1")
        found.append(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
    return tuple(dict.fromkeys(found))


def passed_on(environ: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    """The variables of ``environ`` to set on the hosts: elaunch's, and those of ``wanted``: ``NAME``, ``NCCL_*`` or
    ``NAME=VALUE``.
    """
    names = [*ALWAYS, *(word for word in wanted if "=" not in word)]
    found = {name: value for name, value in environ.items() if any(fnmatch.fnmatchcase(name, one) for one in names)}
    return found | dict(word.split("=", 1) for word in wanted if "=" in word)


def absolute_path(text: str, directory: str) -> str:
    """PYTHONPATH with its relative parts as seen from ``directory``."""
    return os.pathsep.join(os.path.normpath(os.path.join(directory, part)) for part in text.split(os.pathsep) if part)
