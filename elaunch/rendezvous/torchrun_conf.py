"""What torchrun was told on its command line, as settings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elaunch.errors import UsageError
from elaunch.rendezvous import addresses
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.rounds import Limits

PASSWORD_VARIABLE = "ELAUNCH_ETCD_PASSWORD"
DEFAULT_PORT = 2379
_ALIASES = {"ssl_cert": "cert", "ssl_cert_key": "key", "cacert": "ca_cert"}
# torchrun adds timeout by itself; the others say something to its own backends and nothing to this one.
_IGNORED = {"timeout", "heartbeat_timeout", "is_host", "store_type", "rank"}


@dataclass(frozen=True, slots=True)
class Settings:
    """All times in seconds. ``address`` is the one under which other nodes reach this one."""

    endpoints: tuple[str, ...]
    job: str
    limits: Limits
    address: str
    join_timeout: float
    close_timeout: float
    read_timeout: float
    etcd_timeout: float
    lease_ttl: int
    credentials: Credentials

    @classmethod
    def of(
        cls,
        endpoint: str,
        job: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None,
        conf: Mapping[str, Any],
    ) -> Settings:
        """Raises UsageError that names the value and what was expected."""
        values = _named(conf)
        endpoints = parse_endpoints(endpoint)
        attempts = values.number("keep_alive_max_attempt", 3)
        return cls(
            endpoints=endpoints,
            job=job,
            limits=Limits(min_nodes, max_nodes, values.number("last_call_timeout", 30.0, least=0.0)),
            address=local_addr or own_address(endpoints[0]),
            join_timeout=values.number("join_timeout", 600.0),
            close_timeout=values.number("close_timeout", 30.0),
            read_timeout=values.number("read_timeout", 60.0),
            etcd_timeout=values.number("etcd_timeout", 30.0),
            lease_ttl=values.whole("lease_ttl", math.ceil(values.number("keep_alive_interval", 5.0) * attempts)),
            credentials=values.credentials(os.environ),
        )


@dataclass(frozen=True, slots=True)
class _Values:
    """``--rdzv-conf`` with its names as ours."""

    given: Mapping[str, Any]

    def number(self, name: str, default: float, *, least: float | None = None) -> float:
        """Seconds (or a count), more than 0, or at least ``least``."""
        value: float = self._read(
            name, default, float, lambda x: math.isfinite(x) and (x > 0 if least is None else x >= least)
        )
        return value

    def whole(self, name: str, default: int) -> int:
        """Whole seconds, at least 2."""
        value: int = self._read(name, max(2, default), int, lambda x: x >= 2)
        return value

    def _read(self, name: str, default: Any, kind: Callable[[Any], Any], fits: Callable[[Any], bool]) -> Any:
        text = self.given.get(name, default)
        try:
            value = kind(text)
        except (TypeError, ValueError):
            value = None
        if value is None or not fits(value):
            expected = "a number of seconds" if kind is float else "whole seconds, 2 or more"
            raise UsageError(f"--rdzv-conf: {name}={text}: expected {expected}")
        return value

    def credentials(self, environ: Mapping[str, str]) -> Credentials:
        """Raises UsageError where what is given does not go together."""
        given, password = self.given, environ.get(PASSWORD_VARIABLE, "")
        if "password" in given:
            raise UsageError(
                f"--rdzv-conf: a password is seen by everyone there: set {PASSWORD_VARIABLE}, or password_file=PATH"
            )
        if path := given.get("password_file"):
            try:
                password = Path(path).read_text().strip()
            except OSError as error:
                raise UsageError(f"--rdzv-conf: password_file={path}: {error.strerror}") from error
        user = str(given.get("user", ""))
        if bool(user) != bool(password) and (user or "password_file" in given):
            raise UsageError(f"--rdzv-conf: user=NAME and its password ({PASSWORD_VARIABLE}) go together")
        ca, cert, key = (Path(given[n]) if n in given else None for n in ("ca_cert", "cert", "key"))
        if given.get("protocol") == "https" and ca is None and cert is None:
            raise UsageError("--rdzv-conf: protocol=https needs ca_cert=PATH")
        return Credentials(ca, cert, key, user, password if user else "")


_KNOWN = {
    "join_timeout",
    "last_call_timeout",
    "close_timeout",
    "read_timeout",
    "etcd_timeout",
    "lease_ttl",
    "keep_alive_interval",
    "keep_alive_max_attempt",
    "protocol",
    "ca_cert",
    "cert",
    "key",
    "user",
    "password",
    "password_file",
}


def _named(conf: Mapping[str, Any]) -> _Values:
    values = {_ALIASES.get(name, name): value for name, value in conf.items() if name not in _IGNORED}
    if unknown := sorted(values.keys() - _KNOWN):
        keys = sorted((_KNOWN | _ALIASES.keys()) - {"password"})
        raise UsageError(f"--rdzv-conf: unknown key {unknown[0]!r}; the keys are {', '.join(keys)}")
    return _Values(values)


def parse_endpoints(text: str) -> tuple[str, ...]:
    """``host[:port],...`` as etcd's endpoints; localhost for an empty text."""
    parts = [part.strip() for part in (text or "localhost").split(",") if part.strip()]
    return tuple(part if _has_port(part) else f"{part}:{DEFAULT_PORT}" for part in parts)


def _has_port(part: str) -> bool:
    return part.startswith("unix:") or ":" in part.rpartition("]")[2]


def own_address(endpoint: str) -> str:
    """The address from which this node reaches ``endpoint``, IPv4 where it can. Raises UsageError if there is none."""
    if endpoint.startswith("unix:"):
        return "127.0.0.1"
    host, _, port = endpoint.rpartition(":")
    try:
        return addresses.own_address(host, int(port))
    except (OSError, ValueError) as error:
        raise UsageError(f"rendezvous: no way to {endpoint!r}: {error}") from error
