"""The operator's process: kopf watches, one loop for each ElasticJob works, one Lease says which process may."""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import kopf
import structlog

from elaunch.clock import SystemClock
from elaunch.kubernetes.cluster import Cluster, account, connect
from elaunch.kubernetes.electing import Candidate
from elaunch.kubernetes.liveness import answering
from elaunch.kubernetes.names import GROUP, JOB, PLURAL, VERSION
from elaunch.kubernetes.reconciling import Reconciler
from elaunch.rendezvous.waiting import cancelled

LEASE = "elaunch-operator"
_HERE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def main(
    namespaces: Sequence[str] = (),
    *,
    lease_namespace: str | None = None,
    identity: str | None = None,
    kubeconfig: str | None = None,
    liveness: str | None = None,
) -> int:
    """Work until SIGTERM or SIGINT; the exit code. ``namespaces`` empty: the whole cluster. Raises UsageError.

    1 where the Lease was lost: whoever started this process is to start it again.
    """
    where = lease_namespace or _namespace() or (namespaces[0] if namespaces else "default")
    me = identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    return asyncio.run(_main(tuple(namespaces), where, me, kubeconfig, liveness))


def _namespace() -> str:
    with suppress(OSError):
        return _HERE.read_text().strip()
    return ""


async def _main(
    namespaces: tuple[str, ...], lease_namespace: str, identity: str, kubeconfig: str | None, liveness: str | None
) -> int:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with answering(liveness):
        cluster = await connect(kubeconfig)
        candidate = Candidate(cluster, lease_namespace, LEASE, identity, SystemClock())
        try:
            if not await _first(stop, candidate.win()):
                return 0
            structlog.get_logger().info("operator_works", identity=identity, namespaces=namespaces or "all")
            try:
                return await _work(Workshop(cluster, kubeconfig), namespaces, stop, candidate)
            finally:
                await candidate.resign()
        finally:
            await cluster.close()


async def _first(stop: asyncio.Event, other: Any) -> bool:
    """Whether ``other`` was done before it was to stop."""
    waiting, working = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(other)
    try:
        await asyncio.wait({waiting, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        await cancelled(waiting)
        await cancelled(working)


def _name() -> Any:
    """For kopf, which would else ask for the name of this user: one in a pod may have none."""
    return socket.gethostname()


async def _work(workshop: Workshop, namespaces: tuple[str, ...], stop: asyncio.Event, candidate: Candidate) -> int:
    ended = asyncio.Event()
    kopfing = asyncio.ensure_future(
        kopf.operator(
            registry=workshop.registry(),
            settings=_settings(namespaces),
            identity=_name(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=ended,
        )
    )
    holding = asyncio.ensure_future(candidate.hold())
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({kopfing, holding, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if kopfing.done():  # it takes SIGTERM and SIGINT for itself, and ends in order
            kopfing.result()
        return 1 if holding.done() else 0
    finally:
        ended.set()
        await workshop.close()
        for task in (holding, waiting, kopfing):
            await cancelled(task)


def _settings(namespaces: tuple[str, ...]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Who serves some namespaces may list neither those of the cluster nor its definitions: kopf would ask for a minute
    # before it does without, and begin no job meanwhile.
    settings.scanning.disabled = bool(namespaces)
    settings.posting.enabled = False  # Events are our own, each once
    settings.watching.server_timeout = 300
    settings.watching.connect_timeout = 10
    return settings


class Workshop:
    """The loops of all jobs: one begins when a job is first heard of, and ends when the job is gone."""

    def __init__(self, cluster: Cluster, kubeconfig: str | None) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig
        self._working: dict[tuple[str, str], tuple[Reconciler, asyncio.Task[None]]] = {}
        self._closed = False

    def registry(self) -> kopf.OperatorRegistry:
        """What kopf is to watch. Bare events: no annotation, no finalizer is put on anybody's object."""
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(self._job_event)
        for group, version, plural in (("", "v1", "pods"), ("apps", "v1", "statefulsets")):
            labels = {JOB: kopf.PRESENT}
            kopf.on.event(group, version, plural, labels=labels, registry=registry)(self._owned_event)
        return registry

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        """As we speak to the server ourselves; asked again whenever it does not take what we showed."""
        found = await account(self._kubeconfig)
        words = (await found.get_api_key_with_prefix("BearerToken") or "").split()
        return kopf.ConnectionInfo(
            server=found.host,
            ca_path=found.ssl_ca_cert,
            insecure=not found.verify_ssl,
            certificate_path=found.cert_file,
            private_key_path=found.key_file,
            scheme="Bearer" if words else None,
            token=words[-1] if words else None,
        )

    async def _job_event(self, namespace: str | None, name: str | None, **_: Any) -> None:
        self._notice(namespace or "", name or "", begin=True)

    async def _owned_event(self, namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        self._notice(namespace or "", labels.get(JOB, ""), begin=False)

    def _notice(self, namespace: str, name: str, *, begin: bool) -> None:
        """Wake the job's loop; one that is over begins again, should the job still or again be there."""
        key = (namespace, name)
        found = self._working.get(key)
        if found is not None:
            found[0].wake.set()
            if not found[1].done():
                return
        if begin and not self._closed:
            reconciler = Reconciler(self._cluster, namespace, name)
            task = asyncio.create_task(reconciler.run(), name=f"{namespace}/{name}")
            task.add_done_callback(lambda done: self._ended(key, done))
            self._working[key] = (reconciler, task)

    def _ended(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        found = self._working.get(key)
        if found is not None and found[1] is task:
            del self._working[key]
            woken = found[0].wake.is_set()
        else:
            woken = False
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            structlog.get_logger().error("job_loop_failed", job="/".join(key), exc_info=error)
            asyncio.get_running_loop().call_later(5.0, lambda: self._notice(*key, begin=True))
        elif woken:
            self._notice(*key, begin=True)

    async def close(self) -> None:
        """Stop all loops where they are: whoever comes next goes on from what the server has. None begins any more."""
        self._closed = True
        for _, task in list(self._working.values()):
            await cancelled(task)
