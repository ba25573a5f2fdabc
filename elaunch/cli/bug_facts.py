"""What this host knows of a job beside its logs: agents that run, saved states, and the secrets that stay here."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from elaunch.agent.local_jobs import local_jobs
from elaunch.cli.redaction import secrets_in
from elaunch.cli.serving_flags import SECURITY

_MOST = 1 << 20  # bytes of a file
_FILES = ("TOKEN_FILE", "TLS_KEY", "PASSWORD_FILE")


@dataclass(frozen=True, slots=True)
class Local:
    """An agent of the job that runs here."""

    pid: int
    endpoints: tuple[str, ...]
    words: tuple[str, ...]
    folder: str
    environ: Mapping[str, str] = field(repr=False)
    password_file: str | None = None

    @property
    def log_dir(self) -> str:
        """Where its logs go; "" where it was not told."""
        text = _value(self.words, "--log-dir") or _value(self.words, "--log_dir") or self.environ.get("PET_LOG_DIR", "")
        return os.path.join(self.folder, text) if text else ""

    def document(self) -> dict[str, Any]:
        return {"pid": self.pid, "etcd": list(self.endpoints), "command": list(self.words), "folder": self.folder}


def local_agents(job: str) -> list[Local]:
    """Those of this user, in the order of their pids."""
    found = []
    for local in local_jobs():
        if local.job == job:
            words = tuple(_split(local.pid, "cmdline"))
            pairs = (entry.partition("=") for entry in _split(local.pid, "environ"))
            environ = {name: value for name, _, value in pairs}
            folder = _link(local.pid, "cwd")
            found.append(Local(local.pid, local.endpoints, words, folder, environ, local.access.password_file))
    return sorted(found, key=lambda agent: agent.pid)


def known_secrets(arguments: argparse.Namespace, environ: Mapping[str, str], agents: Sequence[Local]) -> set[str]:
    """Every secret that this user's environment, those of the agents, and the files that they name hold."""
    found: set[str] = set()
    names = [flag.dest for flag in SECURITY if flag.dest in ("token_file", "tls_key")]
    paths = {getattr(arguments, name) for name in names} | {agent.password_file for agent in agents}
    for folder, one in ("", environ), *((agent.folder, agent.environ) for agent in agents):
        found |= secrets_in(one)
        named = {value for name, value in one.items() if name.upper().endswith(_FILES)}
        paths |= {os.path.join(folder, value) for value in named if value}
    for agent in agents:
        for option in ("--token-file", "--token_file", "--tls-key", "--tls_key"):
            if given := _value(agent.words, option):
                paths.add(os.path.join(agent.folder, given))
    paths |= set(_password_files(arguments.rdzv_conf))
    for path in paths:
        found |= _words_of(path) if path else set()
    return found


def saved_states(job: str) -> Iterator[tuple[str, bytes]]:
    """What an embedded etcd of the job has left beside its data."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "elaunch"
    for folder in sorted(base.glob(f"{_globbed(quote(job, safe='')[:150])}-*")):
        path = folder / "state.json"
        if folder.is_dir() and not folder.is_symlink() and path.is_file() and not path.is_symlink():
            try:
                yield f"{folder.name}/state.json", path.read_bytes()[:_MOST]
            except OSError:
                continue


def _globbed(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _password_files(conf: str) -> Iterable[str]:
    return [part.partition("=")[2] for part in conf.split(",") if part.strip().startswith("password_file=")]


def _words_of(path: str) -> set[str]:
    """All of a file of secrets, and each of its words and lines; nothing of one that cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)  # a pipe has no end
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        return set()
    words = {word for word in text.split() if len(word) >= 8}
    return {text.strip(), *words, *(line.strip() for line in text.splitlines())} - {"agent", "operator", "viewer", ""}


def _value(words: Sequence[str], option: str) -> str:
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return ""


def _split(pid: int, name: str) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(part) for part in data.split(b"\0") if part]


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return "/"
