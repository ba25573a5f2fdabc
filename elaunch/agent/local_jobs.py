"""The jobs that this user's agents run on this host, each with the way to its etcd: so `elaunch ps` needs no option.

A file for each agent, in a folder that its owner alone can read. It holds no password and no token.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from elaunch.agent.options import EtcdAccess
from elaunch.agent.trees import process


@dataclass(frozen=True, slots=True)
class LocalJob:
    """One agent: its job, its pid, how to reach the job's etcd."""

    job: str
    pid: int
    endpoints: tuple[str, ...]
    access: EtcdAccess


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are."""
    base = environ.get("ELAUNCH_RUNTIME_DIR")
    return Path(base) / "jobs" if base else Path(f"/tmp/elaunch-{os.getuid()}/jobs")


@contextmanager
def registered(
    job: str, endpoints: Callable[[], tuple[str, ...]], access: EtcdAccess, place: Path | None = None
) -> Iterator[Callable[[], None]]:
    """Leave a file while the context lasts; what it gives writes it anew, with the ``endpoints`` of then.

    Where it cannot be, that costs `elaunch ps` an option, no more.
    """
    place = place or folder()
    path = place / f"{os.getpid()}.json"

    def write() -> None:
        _write(path, job, endpoints(), access)

    write()
    try:
        yield write
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _write(path: Path, job: str, endpoints: tuple[str, ...], access: EtcdAccess) -> None:
    me = process(os.getpid())
    record = {
        "job": job,
        "endpoints": list(endpoints),
        "pid": os.getpid(),
        "started": me.started if me else 0,
        "namespace": _namespace(),
        "access": {k: v for k, v in dataclasses.asdict(access).items() if k != "password"},
    }
    try:
        _make(path.parent)
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(record, file)
        draft.replace(path)
    except OSError as error:
        structlog.get_logger().debug("local_job_not_registered", reason=str(error))


def local_jobs(place: Path | None = None) -> list[LocalJob]:
    """The jobs of this user's agents that run here. Files of agents that are gone are removed."""
    place = place or folder()
    if not _ours(place):
        return []
    found = []
    for path in sorted(place.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_text())
            if record["namespace"] != _namespace():
                continue  # of a container that shares /tmp: its pids mean nothing here
            now = process(int(record["pid"]))
            if now is None or now.started != record["started"]:
                path.unlink()
                continue
            endpoints = tuple(str(endpoint) for endpoint in record["endpoints"])
            found.append(LocalJob(str(record["job"]), now.pid, endpoints, EtcdAccess(**record["access"])))
    return found


def _make(place: Path) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    if not (_ours(place.parent) and _ours(place)):
        raise PermissionError(f"{place} is not a folder that only this user can write")


def _ours(place: Path) -> bool:
    try:
        found = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
