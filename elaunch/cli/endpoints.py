"""``--rdzv-endpoint`` into hosts and ports."""

from __future__ import annotations

import ipaddress
import re

from elaunch.agent.options import Endpoint
from elaunch.errors import UsageError

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_FORM = "expected HOST, HOST:PORT or [IPv6]:PORT"


def parse_endpoints(text: str, default_port: int) -> tuple[Endpoint, ...]:
    """The endpoints in ``text``, separated by commas; none for a blank one.

    Raises ValueError that says what was expected; UsageError, which does not show it, for one with a password in it.
    """
    if "@" in text:
        ways = "give user=NAME and password_file=PATH in --rdzv-conf"
        raise UsageError(f"an endpoint takes no user and no password: {ways}")
    if not text.strip():
        return ()
    endpoints = tuple(parse_endpoint(part.strip(), default_port) for part in text.split(","))
    if len(set(endpoints)) != len(endpoints):
        raise ValueError("names an endpoint twice")
    return endpoints


def parse_endpoint(text: str, default_port: int) -> Endpoint:
    """One endpoint. A bare IPv6 address is read as a host without a port. Raises ValueError."""
    if "://" in text:
        raise ValueError(f"{_FORM}, without a scheme (for TLS: --rdzv-conf protocol=https)")
    host, port = _split(text)
    return Endpoint(_host(host), default_port if port is None else _port(port))


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, closing, rest = text.partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise ValueError(_FORM)
        _check_ipv6(host[1:])
        return host[1:], rest[1:] if rest else None
    if text.count(":") > 1:
        _check_ipv6(text)
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _check_ipv6(text: str) -> None:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError(f"{_FORM}; {text!r} is no IPv6 address") from None


def _host(host: str) -> str:
    if ":" not in host and not _HOST.fullmatch(host):
        raise ValueError(f"{_FORM}; {host!r} is no host")
    return host


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError(f"{_FORM}; a port is a number from 0 to 65535")
    return int(text)
