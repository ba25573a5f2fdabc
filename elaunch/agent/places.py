"""Which host this is to the others: whether it starts the embedded etcd, and where it is reached."""

from __future__ import annotations

import structlog

from elaunch.agent.options import LaunchOptions
from elaunch.errors import EndpointUnreachableError
from elaunch.rendezvous.addresses import own_address, own_loopback, owns
from elaunch.rendezvous.handshake import names
from elaunch.rendezvous.trio_view import SIZE

LOOPBACK = "127.0.0.1"


def may_spread(options: LaunchOptions) -> bool:
    """Whether the job's etcd is its own, and can have members on several hosts."""
    return options.backend != "etcd" and not options.standalone and options.max_nodes >= SIZE


def member_address(options: LaunchOptions) -> str:
    """Where the other members of the job's etcd would reach one here; "" where there can be none.

    Raises as :func:`local_address`.
    """
    if not may_spread(options):
        return ""
    address, tls = local_address(options), options.security.tls
    if tls is None or names(tls, address):
        return address
    text = f"the certificate {tls.cert} does not name {address}: the job's etcd stays on this host, and ends with it"
    structlog.get_logger().info("embedded_etcd", text=text)
    return ""


def is_host(options: LaunchOptions) -> bool:
    """Whether this node starts the embedded etcd: the endpoint is one of its addresses, or it was told so.

    A loopback address of its own that this node was given stands for a host of its own.
    """
    if options.conf.is_host is not None:
        return options.conf.is_host
    host, own = options.endpoints[0].host, own_loopback(options.local_addr or "")
    return owns(host) and own_loopback(host) in ("", own or own_loopback(host))


def local_address(options: LaunchOptions) -> str:
    """The address under which other nodes reach this one: the one from which it reaches the rendezvous.

    Asked for once the rendezvous answers: its name may not be known to the resolver before. Raises
    EndpointUnreachableError where the endpoint has no address or no way leads there.
    """
    if options.local_addr:
        return options.local_addr
    if options.standalone or options.max_nodes == 1:
        return LOOPBACK
    failed = []
    for endpoint in options.endpoints:
        try:
            return own_address(endpoint.host, endpoint.port)
        except (OSError, UnicodeError) as error:
            failed.append(f"{endpoint}: {getattr(error, 'strerror', None) or 'no host name'}")
    raise EndpointUnreachableError(
        f"rendezvous: no endpoint can be reached from here ({'; '.join(failed)}); give this node's own address with"
        " --local-addr"
    )
