"""From the options to an open store: which etcd, embedded or not, and the patience with which it is looked for."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

import structlog

from elaunch.agent.options import EtcdAccess, LaunchOptions
from elaunch.errors import ElaunchError, EndpointUnreachableError
from elaunch.rendezvous.addresses import own_address, owns
from elaunch.rendezvous.embedded import EmbeddedEtcd, ensure_embedded
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.tls import NAME
from elaunch.rendezvous.waiting import within

LOOPBACK = "127.0.0.1"
LOOK = 2.0  # seconds for a last look at who needs the embedded etcd
CHECK_EXTERNAL = 5.0  # seconds that an etcd which should be there gets for its first answer


@dataclass(frozen=True, slots=True)
class Backend:
    """An etcd that answers: its endpoints, and the embedded one where this node keeps it."""

    store: EtcdStore
    endpoints: tuple[str, ...]
    embedded: EmbeddedEtcd | None

    async def release(self, nodes: str, timeout: float) -> None:
        """Close the store, and end an embedded etcd: at once, or after this agent where others still need it.

        ``nodes`` is the prefix of the job's node keys. Only an etcd that nobody needs is waited for.
        """
        if self.embedded is not None:
            with contextlib.suppress(ElaunchError, asyncio.TimeoutError):
                if (await within(LOOK, self.store.list(nodes))).items:
                    timeout = 0.0
        await self.store.close()
        if self.embedded is not None:
            await self.embedded.release(timeout)


def open_store(endpoints: tuple[str, ...], access: EtcdAccess) -> EtcdStore:
    """The store on these endpoints, as ``access`` says to speak to it."""
    credentials = Credentials(
        ca=Path(access.ca_cert) if access.ca_cert else None,
        cert=Path(access.cert) if access.cert else None,
        key=Path(access.key) if access.key else None,
        user=access.user or "",
        password=access.password or "",
        https=access.protocol == "https",
        server_name=access.server_name or "",
    )
    return EtcdStore(endpoints, credentials=credentials)


def etcd_access(options: LaunchOptions) -> EtcdAccess:
    """How the job's etcd is spoken to: an embedded one on a port with the job's own certificate, if it has one."""
    if options.backend == "etcd":
        return options.conf.access
    tls = options.security.tls
    if tls is None or options.standalone:
        return EtcdAccess()
    cert, key = (str(tls.cert), str(tls.key)) if tls.ca is not None else (None, None)
    return EtcdAccess("https", str(tls.authority), cert, key, server_name=NAME)


async def open_backend(options: LaunchOptions) -> Backend:
    """Find or start the job's etcd. Raises EndpointUnreachableError, or UsageError where a port is taken."""
    embedded: EmbeddedEtcd | None = None
    endpoints = tuple(str(e) for e in options.endpoints)
    patience = CHECK_EXTERNAL
    if options.standalone:
        embedded = await ensure_embedded(None, job=options.job, state_dir=None, several_hosts=False)
        endpoints = tuple(embedded.endpoints)
    elif options.backend != "etcd":
        if is_host(options):
            embedded = await ensure_embedded(
                endpoints[0],
                job=options.job,
                state_dir=None,
                several_hosts=options.max_nodes > 1,
                tls=options.security.tls,
            )
            endpoints = tuple(embedded.endpoints)
        else:
            patience = options.conf.read_timeout  # the node that starts it may come later than this one
            structlog.get_logger().info("rendezvous_endpoint_is_remote", endpoint=endpoints[0], patience=patience)
    if embedded is not None and embedded.notice:
        structlog.get_logger().warning("embedded_etcd", text=embedded.notice)
    store = open_store(endpoints, etcd_access(options))
    try:
        version = await store.check(timeout=patience)
    except BaseException:
        await store.close()
        if embedded is not None:
            await embedded.release(0.0)
        raise
    structlog.get_logger().debug("etcd_found", endpoints=endpoints, version=version)
    return Backend(store, endpoints, embedded)


def is_host(options: LaunchOptions) -> bool:
    """Whether this node keeps the embedded etcd: the endpoint is one of its addresses, or it was told so."""
    if options.conf.is_host is not None:
        return options.conf.is_host
    return owns(options.endpoints[0].host)


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
