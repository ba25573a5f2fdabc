"""A list of hosts, from a file or from the command line, into values."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from elaunch.schedulers.hostlist import MOST, expand, split

HERE = "localhost"
_FORM = "expected [user@]host[:port] [slots=N] [addr=ADDRESS]"
# None begins with a dash: ssh would take it for an option.
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+\\-]{0,254}\$?")
_IPV6 = re.compile(r"(?:([^@\[\]]+)@)?\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?)\](?::([0-9]+))?")
_MOST_SLOTS = 4096


@dataclass(frozen=True, slots=True)
class Host:
    """A host as ssh is asked for it. ``slots`` are its ranks and ``address`` is where the other hosts reach it, where
    that was said. ``label`` is how its lines begin.
    """

    name: str
    user: str = ""
    port: int | None = None
    slots: int | None = None
    address: str = ""
    label: str = ""

    @property
    def here(self) -> bool:
        """This very machine, which needs no ssh."""
        return self.name == HERE and not self.user and self.port is None

    @property
    def target(self) -> str:
        """The destination on ssh's command line."""
        return f"{self.user}@{self.name}" if self.user else self.name


def parse_file(text: str) -> tuple[Host, ...]:
    """The hosts of a file: one on a line, or several by ranges (``gpu[01-08]``); ``#`` begins a comment.

    Raises ValueError, with the number of the line and what was expected.
    """
    found: list[Host] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        try:
            found += _line(words) if words else []
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return _checked(found)


def parse_list(text: str) -> tuple[Host, ...]:
    """The hosts in ``a,user@b:22,gpu[01-08]``. Raises ValueError that says what was expected."""
    return _checked(host for part in split(text) for host in _line([part]))


def _line(words: list[str]) -> list[Host]:
    settings: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if key not in ("slots", "addr") or not equals or key in settings:
            raise ValueError(f"{word!r}: {_FORM}")
        settings[key] = value
    hosts = _hosts(words[0])
    slots = _slots(settings["slots"]) if "slots" in settings else None
    address = settings.get("addr", "")
    if address:
        _check_address(address, len(hosts))
    return [replace(host, slots=slots, address=address) for host in hosts]


def _hosts(word: str) -> list[Host]:
    if match := _IPV6.fullmatch(word):
        return [_host(match[1] or "", match[2], match[3])]
    return [_plain(one) for one in expand(word)]


def _plain(text: str) -> Host:
    user, at, rest = text.rpartition("@")
    if at and not user:
        raise ValueError(f"{text!r}: {_FORM}")
    name, colon, port = rest.partition(":")
    if not _NAME.fullmatch(name) or (colon and not port):
        raise ValueError(f"{text!r}: {_FORM}; an IPv6 address stands in brackets")
    return _host(user, name, port or None)


def _host(user: str, name: str, port: str | None) -> Host:
    if user and not _USER.fullmatch(user):
        raise ValueError(f"{user!r} is no user's name: {_FORM}")
    if ":" in name:
        _check_ipv6(name)
    if port is None:
        return Host(name, user)
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
        raise ValueError(f"{port!r} is no port: {_FORM}")
    return Host(name, user, int(port))


def _check_ipv6(text: str) -> None:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError(f"{text!r} is no IPv6 address: {_FORM}") from None


def _slots(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= _MOST_SLOTS):
        raise ValueError(f"slots={text}: expected a number from 1 to {_MOST_SLOTS}")
    return int(text)


def _check_address(text: str, hosts: int) -> None:
    if hosts > 1:
        raise ValueError(f"addr={text}: is one host's, and this line has {hosts}")
    if ":" in text:
        _check_ipv6(text)
    elif not _NAME.fullmatch(text):
        raise ValueError(f"addr={text}: expected a name or an address")


def _checked(found: Iterable[Host]) -> tuple[Host, ...]:
    """The hosts with labels that tell them apart. Raises ValueError for none, too many, and one that comes twice."""
    hosts = tuple(found)
    if not hosts:
        raise ValueError("there is no host in it")
    if len(hosts) > MOST:
        raise ValueError(f"there are more than {MOST} hosts in it")
    times = Counter(host.name for host in hosts)
    seen: set[tuple[str, int | None]] = set()
    for host in hosts:
        if (key := (host.name.lower(), host.port)) in seen:
            raise ValueError(f"host {host.name} is there twice; slots=N says how many ranks it gets")
        seen.add(key)
    return tuple(
        replace(host, label=host.name if times[host.name] == 1 or host.port is None else f"{host.name}:{host.port}")
        for host in hosts
    )
