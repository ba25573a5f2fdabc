"""Which addresses are this machine's, and where an embedded etcd listens."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_BACKLOG = 4096  # all ranks of a generation connect at once
_NOT_OURS = (errno.EADDRNOTAVAIL, errno.ENODEV, errno.EAFNOSUPPORT)  # other errors do not say whose an address is


def resolve(host: str) -> tuple[IPAddress, ...]:
    """The addresses of ``host``, none if it has none."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in found))


def owns(endpoint_host: str) -> bool:
    """Whether ``endpoint_host``, by whatever name or alias, is this machine."""
    return any(_is_ours(address) for address in resolve(endpoint_host))


def _is_ours(address: IPAddress) -> bool:
    # The kernel lets us bind to our own addresses only: no list of interfaces could be more exact.
    return address.is_loopback or (not address.is_unspecified and _bind_error(address, 0) is None)


def _bind_error(address: IPAddress, port: int) -> int | None:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(address), port))
    except OSError as error:
        return error.errno or errno.EINVAL
    return None


def no_loopback() -> str:
    """Why this machine cannot reach itself at 127.0.0.1; empty where it can."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 9))  # sends nothing: the kernel only chooses the route
    except OSError as error:
        return error.strerror or str(error)
    return ""


def foreign(host: str) -> str:
    """Why this machine cannot be reached at ``host``; empty where ``host`` is one of its addresses, or may be."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return "this name has no address"
    errors = [_no_address_of_ours(family, target) for family, _, _, _, target in found]
    if not all(errors):
        return ""
    shown = sorted({str(target[0]) for _, _, _, _, target in found})
    return "no address of this host" if shown == [host] else f"{', '.join(shown)} is no address of this host"


def _no_address_of_ours(family: int, target: tuple[Any, ...]) -> bool:
    if ipaddress.ip_address(str(target[0]).split("%")[0]).is_unspecified:
        return True
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(target)
    except OSError as error:
        return error.errno in _NOT_OURS
    return False


def is_taken(addresses: tuple[IPAddress, ...], port: int) -> bool:
    """Whether somebody listens on one of ``addresses`` at ``port``."""
    return any(_bind_error(address, port) == errno.EADDRINUSE for address in addresses)


def listen_addresses(host: str, *, several_hosts: bool) -> tuple[IPAddress, ...]:
    """Where to listen for ``host``: on loopback where that is enough, else everywhere."""
    loopback = tuple(
        address
        for address in (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
        if _bind_error(address, 0) is None
    )
    named = resolve(host)
    if not several_hosts or (named and all(address.is_loopback for address in named)):
        special = tuple(address for address in named if address.is_loopback)
        return tuple(dict.fromkeys((*loopback, *special)))
    return (ipaddress.ip_address("::" if socket.has_dualstack_ipv6() else "0.0.0.0"),)


def own_loopback(host: str) -> str:
    """The loopback address of ``host`` where it is one of its own, such as 127.0.0.3; "" for any other host."""
    found = resolve(host)
    special = [a for a in found if a.is_loopback and str(a) not in ("127.0.0.1", "::1", "127.0.1.1")]
    return str(special[0]) if special and len(special) == len(found) else ""


def bindable(host: str) -> str:
    """An address to listen on so that others reach this machine at ``host``: its own where that is ours."""
    found = sorted(resolve(host), key=lambda address: address.version)
    for address in found:
        if not address.is_unspecified and _bind_error(address, 0) is None:
            return str(address)
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


def free_port(address: str, wanted: int = 0) -> int:
    """``wanted`` if nobody listens there, else any free port of ``address``. Raises OSError."""
    ip = ipaddress.ip_address(address)
    if wanted and _bind_error(ip, wanted) is None:
        return wanted
    with socket.socket(socket.AF_INET6 if ip.version == 6 else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def join(address: IPAddress | str, port: int) -> str:
    """``address:port``, with brackets where they are needed."""
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"


def listening_host(address: str) -> str:
    """Where to listen so that others reach this machine at ``address``: a loopback alone, or "", everywhere."""
    return address if address.startswith("127.") or address == "::1" else ""


def listen(address: str) -> socket.socket:
    """A listening socket on a free port, reachable at ``address``. Raises OSError where that is not ours."""
    host = listening_host(address)
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, 0), family=family, backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", 0), backlog=_BACKLOG)


def own_address(host: str, port: int) -> str:
    """The address from which this machine reaches ``host``, IPv4 where it can. Raises OSError where there is no way."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)
    last = OSError(f"{host} has no address")
    for family, _, _, _, target in sorted(found, key=lambda entry: entry[0] != socket.AF_INET):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(target)  # sends nothing: the kernel only chooses the route
                return str(probe.getsockname()[0])
        except OSError as error:
            last = error
    raise last
