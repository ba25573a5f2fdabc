"""From the options to an open store: which etcd, embedded or not, and the patience with which it is looked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from elaunch.agent.options import EtcdAccess, LaunchOptions
from elaunch.agent.places import is_host, local_address, may_spread, member_address
from elaunch.errors import ElaunchError, EndpointUnreachableError, UsageError
from elaunch.rendezvous.addresses import resolve
from elaunch.rendezvous.embedded import EmbeddedEtcd, ensure_embedded
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.steading import Steading
from elaunch.rendezvous.tls import NAME, Tls
from elaunch.rendezvous.trio_view import SIZE
from elaunch.rendezvous.waiting import within

PASSWORD_VARIABLE = "ELAUNCH_ETCD_PASSWORD"
LOOK = 2.0  # seconds for a last look at who needs the embedded etcd
TWO = (
    "the etcd of a job of two nodes runs on this host alone, and the job ends with it:"
    " from three nodes on it has members on three of them"
)
CHECK_EXTERNAL = 5.0  # seconds that an etcd which should be there gets for its first answer


@dataclass(frozen=True, slots=True)
class Backend:
    """An etcd that answers, the embedded one where this node keeps it, and this node's part in one of several hosts."""

    store: EtcdStore
    embedded: EmbeddedEtcd | None
    steading: Steading | None = None

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where etcd is, as far as is known now."""
        return self.store.endpoints

    @property
    def held(self) -> EmbeddedEtcd | None:
        """What of an embedded etcd runs on this host now."""
        return self.embedded if self.steading is None else self.steading.held

    async def majority_lost(self) -> str:
        """Where an embedded etcd has too few members left to decide anything, a sentence that says so."""
        members = self.endpoints
        if self.steading is None or len(members) < SIZE - 1:
            return ""
        healths = await asyncio.gather(*(self.store.health(member, timeout=LOOK) for member in members))
        if any(health is not None and health.leader for health in healths):
            return ""
        silent = [member for member, health in zip(members, healths, strict=True) if health is None]
        return (
            f"{len(silent)} of the {len(members)} members of this job's etcd do not answer here ({', '.join(silent)}):"
            f" without {len(members) // 2 + 1} nothing can be decided; start the job again, or, where the others go on,"
            " this node"
        )

    async def release(self, nodes: str, timeout: float) -> None:
        """Close the store, and end an embedded etcd: at once, or after this agent where others still need it.

        ``nodes`` is the prefix of the job's node keys. Only an etcd that nobody needs is waited for.
        """
        held, forsaken = self.held, False
        if held is not None and len(self.endpoints) > 1:
            timeout = 0.0  # members end together, and none can tell that it was the last
            health = await self.store.health(held.endpoints[0], timeout=LOOK)
            forsaken = health is not None and not health.leader
        elif held is not None:
            try:
                if (await within(LOOK, self.store.list(nodes))).items:
                    timeout = 0.0
            except (
                ElaunchError,
                asyncio.TimeoutError,
            ):  # frozen, say: of no use to anybody
                forsaken = held.disposable
                timeout = timeout if forsaken else 0.0
        await self.store.close()
        if held is not None:
            await held.release(timeout, forsaken=forsaken)


def with_password(access: EtcdAccess, environ: Mapping[str, str]) -> EtcdAccess:
    """``access`` as it was handed on, without its password, with the password from where it came."""
    if not access.user:
        return access
    path = access.password_file
    try:
        password = Path(path).read_text().strip() if path else environ.get(PASSWORD_VARIABLE)
    except OSError as error:
        raise UsageError(f"password_file={path}: cannot be read: {error.strerror}") from None
    return replace(access, password=password)


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
    return EtcdAccess() if tls is None or options.standalone else tls_access(tls)


def tls_access(tls: Tls) -> EtcdAccess:
    """How an embedded etcd with a job's own certificate is spoken to."""
    cert, key = (str(tls.cert), str(tls.key)) if tls.ca is not None else (None, None)
    return EtcdAccess("https", str(tls.authority), cert, key, server_name=NAME)


async def open_backend(options: LaunchOptions, spare: Callable[[int], None] = lambda _: None) -> Backend:
    """Find or start the job's etcd. Raises EndpointUnreachableError, or UsageError where a port is taken.

    ``spare`` hears the pid of each keeper that is started, now or later: it may have to outlive this process.
    """
    backend = await _found(options)
    embedded = backend.embedded
    if embedded is not None:
        spare(embedded.keeper)
    if not may_spread(options):
        return backend
    try:
        address = await asyncio.to_thread(local_address, options)
    except BaseException:
        await backend.store.close()
        if embedded is not None:
            await embedded.release(0.0)
        raise
    held = embedded if embedded is not None and embedded.ours else None
    port, tls = options.endpoints[0].port, options.security.tls
    steading = Steading(backend.store, options.job, address, port, held=held, tls=tls, spare=spare)
    return replace(backend, steading=steading)


async def _found(options: LaunchOptions) -> Backend:
    embedded: EmbeddedEtcd | None = None
    endpoints = tuple(str(e) for e in options.endpoints)
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
                address=await asyncio.to_thread(member_address, options),
                others=endpoints[1:],
            )
            endpoints = tuple(embedded.endpoints)
            if options.max_nodes == SIZE - 1:
                structlog.get_logger().info("embedded_etcd", text=TWO)
        else:
            return await _wait_for_owner(options)
    if embedded is not None and embedded.notice:
        structlog.get_logger().warning("embedded_etcd", text=embedded.notice)
    try:
        return await _checked(open_store(endpoints, etcd_access(options)), CHECK_EXTERNAL, embedded)
    except EndpointUnreachableError as error:
        advice = "; check --rdzv-endpoint, and that an etcd runs there" if options.backend == "etcd" else ""
        raise EndpointUnreachableError(f"{error}{advice}", error.cause) from None


async def _checked(store: EtcdStore, patience: float, embedded: EmbeddedEtcd | None) -> Backend:
    try:
        version = await store.check(timeout=patience)
    except BaseException:
        await store.close()
        if embedded is not None:
            await embedded.release(0.0)
        raise
    structlog.get_logger().debug("etcd_found", endpoints=store.endpoints, version=version)
    return Backend(store, embedded)


async def _wait_for_owner(options: LaunchOptions) -> Backend:
    """The etcd of the node that owns the endpoint, which may come later than this one. So may its name."""
    endpoint, patience = options.endpoints[0], options.conf.read_timeout
    where = tuple(str(one) for one in options.endpoints)
    log = structlog.get_logger()
    log.info("rendezvous", text=f"waiting up to {patience:g} s for the node that owns {endpoint}")
    if not await asyncio.to_thread(resolve, endpoint.host):
        log.warning("rendezvous", text=f"the name {endpoint.host} is not known here; looking for it again and again")
    try:
        return await _checked(open_store(where, etcd_access(options)), patience, None)
    except EndpointUnreachableError as error:
        raise EndpointUnreachableError(
            f"rendezvous: the node that owns {endpoint} did not answer within {patience:g} s (read_timeout): "
            f"{error.cause or error}; start that node too, or give the address of one that runs",
            error.cause,
        ) from None
