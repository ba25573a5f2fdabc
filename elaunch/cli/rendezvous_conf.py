"""``--rdzv-conf`` into a :class:`RendezvousConf`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from elaunch.agent.options import EtcdAccess, RendezvousConf
from elaunch.cli.convert import boolean, number
from elaunch.errors import UsageError

PASSWORD_VARIABLE = "ELAUNCH_ETCD_PASSWORD"
_LONGEST_TTL = 1_000_000  # seconds
_ALIASES = {"ssl_cert": "cert", "ssl_cert_key": "key", "cacert": "ca_cert"}


def _seconds(text: str) -> float:
    value = number(text)
    if value <= 0:
        raise ValueError("expected seconds, more than 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("expected a number from 1 up")
    return int(text)


def parse_ttl(text: str) -> int:
    """A lease's time. Raises ValueError."""
    if not text.isdecimal() or not 2 <= int(text) <= _LONGEST_TTL:
        raise ValueError(f"expected whole seconds, 2 or more, {_LONGEST_TTL} at most")
    return int(text)


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("expected a node's rank, from 0")
    return int(text)


def _store_type(text: str) -> str:
    if text not in ("tcp", "file"):
        raise ValueError("expected tcp or file")
    return text


def _protocol(text: str) -> str:
    if text.lower() not in ("http", "https"):
        raise ValueError("expected http or https")
    return text.lower()


def _file(text: str) -> str:
    if not os.path.isfile(text) or not os.access(text, os.R_OK):
        raise ValueError("no such file, or it cannot be read")
    return text


_TIMES: dict[str, Callable[[str], Any]] = {
    "join_timeout": _seconds,
    "last_call_timeout": _seconds,
    "close_timeout": _seconds,
    "heartbeat_timeout": _seconds,
    "keep_alive_interval": _seconds,
    "keep_alive_max_attempt": _count,
    "read_timeout": _seconds,
    "timeout": _seconds,
    "lease_ttl": parse_ttl,
    "etcd_timeout": _seconds,
    "is_host": boolean,
    "store_type": _store_type,
    "rank": _rank,
}
_ACCESS: dict[str, Callable[[str], Any]] = {
    "protocol": _protocol,
    "ca_cert": _file,
    "cert": _file,
    "key": _file,
    "user": str,
    "password_file": _file,
}
_KEYS = {**_TIMES, **_ACCESS}


def parse_pairs(text: str) -> dict[str, str]:
    """``k=v,k=v`` as a dict; names that torch gives in another spelling are ours. Raises ValueError."""
    pairs: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not key or not value:
            raise ValueError(f"expected KEY=VALUE,...; {part.strip()!r} is none")
        pairs[_ALIASES.get(key, key)] = value
    return pairs


def parse_conf(text: str, environ: Mapping[str, str]) -> tuple[RendezvousConf, int | None]:
    """The settings in ``text``, and static's ``rank`` where it was given. Raises ValueError or UsageError."""
    pairs = _pairs_without_password(text)
    values = {key: _value(key, value, alone=len(pairs) == 1) for key, value in pairs.items()}
    rank = values.pop("rank", None)
    access = _access({key: values.pop(key) for key in _ACCESS if key in values}, environ)
    conf = RendezvousConf(**values, access=access)
    if "lease_ttl" not in values:
        ttl = max(2, math.ceil(conf.keep_alive_interval * conf.keep_alive_max_attempt))
        conf = RendezvousConf(**values, access=access, lease_ttl=ttl)
    return conf, rank


def parse_access(text: str, environ: Mapping[str, str]) -> EtcdAccess:
    """Only how to speak to etcd. Raises ValueError or UsageError."""
    pairs = _pairs_without_password(text)
    if strange := sorted(pairs.keys() - _ACCESS.keys()):
        raise ValueError(_unknown(strange[0], _ACCESS))
    return _access({key: _value(key, value, alone=len(pairs) == 1) for key, value in pairs.items()}, environ)


def _pairs_without_password(text: str) -> dict[str, str]:
    if re.search(r"(^|,)\s*password\s*=", text):  # no error may show the value
        raise UsageError(
            "--rdzv-conf: a password does not belong on the command line: "
            f"set {PASSWORD_VARIABLE}, or password_file=PATH"
        )
    return parse_pairs(text)


def _value(key: str, text: str, *, alone: bool) -> Any:
    if key not in _KEYS:
        raise ValueError(_unknown(key, _KEYS))
    try:
        return _KEYS[key](text)
    except ValueError as error:
        if alone:  # the error names the option's value, which is this very pair
            raise
        raise ValueError(f"{key}={text}: {error}") from None


def _unknown(key: str, keys: Collection[str]) -> str:
    from elaunch.cli.spelling import suggestion

    known = sorted({*keys, *(alias for alias, name in _ALIASES.items() if name in keys)})
    near = suggestion(key, known)
    return f"unknown key {key!r}; {near + ' ' if near else ''}the keys are {', '.join(known)}"


def _access(values: dict[str, Any], environ: Mapping[str, str]) -> EtcdAccess:
    password = environ.get(PASSWORD_VARIABLE) if "user" in values else None
    if path := values.get("password_file"):
        values["password_file"] = os.path.abspath(path)
        password = Path(path).read_text().strip()
    if ("cert" in values) != ("key" in values):
        raise ValueError("ssl_cert and ssl_cert_key go together")
    secure = {"ca_cert", "cert"} & values.keys()
    protocol: Literal["http", "https"] = values.setdefault("protocol", "https" if secure else "http")
    if secure and protocol == "http":
        raise ValueError("protocol=http: certificates need protocol=https")
    if password and "user" not in values:
        raise ValueError("password_file: give user=NAME too")
    if "user" in values and not password:
        raise ValueError(f"user={values['user']}: set its password in {PASSWORD_VARIABLE}, or password_file=PATH")
    return EtcdAccess(**values, password=password)
