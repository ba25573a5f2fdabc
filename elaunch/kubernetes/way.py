"""The way to a job's etcd: one store while the addresses stay, with what its secret says for an external one."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elaunch.errors import UsageError
from elaunch.kubernetes.job_view import follow
from elaunch.kubernetes.spec import JobSpec
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.waiting import cancelled

FILES = ("ca.crt", "tls.crt", "tls.key")
_CALL, _DEADLINE = 1.5, 4.0  # seconds


class Way:
    """``wake`` is set at each change of the job in etcd, as long as there is a way to it."""

    def __init__(self, job: str, wake: asyncio.Event) -> None:
        self._job = job
        self._wake = wake
        self._store: EtcdStore | None = None
        self._following: asyncio.Task[None] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shown: Mapping[str, bytes] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def shown(self) -> Mapping[str, bytes]:
        """What etcd is shown."""
        return self._shown

    def show(self, secret: Mapping[str, bytes]) -> None:
        """What an external etcd is to be shown: the data of its secret."""
        if secret != self._shown:
            self._shown = dict(secret)
            self._forget()

    async def to(self, addresses: tuple[str, ...]) -> EtcdStore:
        """The store there. Raises UsageError where an address or a file of the secret is none."""
        if self._store is None:
            self._store = EtcdStore(addresses, credentials=self._credentials(), call_timeout=_CALL, deadline=_DEADLINE)
            self._following = asyncio.create_task(follow(self._store, self._job, self._wake))
        elif self._store.endpoints != addresses:
            self._store.use(addresses)
        return self._store

    async def close(self) -> None:
        self._forget()
        await asyncio.gather(*self._closing)
        if self._folder is not None:
            self._folder.cleanup()

    def _forget(self) -> None:
        """The next call begins anew; the old store is closed meanwhile."""
        if self._store is not None:
            closing = asyncio.create_task(_closed(self._following, self._store))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._store = self._following = None

    def _credentials(self) -> Credentials:
        shown = self._shown
        if not shown:
            return Credentials()
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="elaunch-etcd-")
        paths: dict[str, Path | None] = {}
        for name in FILES:
            path = Path(self._folder.name) / name
            if name in shown:
                path.touch(mode=0o600)
                path.write_bytes(shown[name])
            paths[name] = path if name in shown else None
        text = {name: shown.get(name, b"").decode(errors="replace").strip() for name in ("username", "password")}
        return Credentials(paths["ca.crt"], paths["tls.crt"], paths["tls.key"], text["username"], text["password"])


async def _closed(following: asyncio.Task[None] | None, store: EtcdStore) -> None:
    await cancelled(following)
    await store.close()


def data_of(spec: JobSpec, secret: Mapping[str, Any] | None) -> dict[str, bytes]:
    """What stands in a Secret. Raises UsageError where there is none of the name that the job gives."""
    if secret is None:
        raise UsageError(f"the secret {spec.etcd.secret} (spec.etcd.external.secretName) is not there")
    try:
        return {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
    except ValueError as error:
        raise UsageError(f"the secret {spec.etcd.secret} cannot be read: {error}") from None
