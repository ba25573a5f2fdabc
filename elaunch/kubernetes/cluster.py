"""The Kubernetes API as the operator uses it: plain documents, few verbs, errors as values where they are expected."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio import client, config

from elaunch.errors import UsageError
from elaunch.kubernetes.names import GROUP, PLURAL, VERSION

_TIMEOUT = 20.0  # seconds for one request
_TRIES = 4
_PAUSE = 0.5  # seconds before the second try, doubled for each further one
_AGAIN = (429, 500, 502, 503, 504)

PATHS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "events": "/api/v1",
    "statefulsets": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    PLURAL: f"/apis/{GROUP}/{VERSION}",
}


class ApiError(Exception):
    """The server said no, or nothing. ``status`` is HTTP's, 0 where no answer came; the text is the server's own."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(f"{status} {reason}: {text}" if status else text)
        self.status = status
        self.reason = reason

    @property
    def gone(self) -> bool:
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """409: it exists already, or is not any more as it was read."""
        return self.status == 409


class Cluster:
    """One API server. All calls must come from one event loop. Raises ApiError throughout."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._ahead = 0.0
        self.budget_version = ""

    def now(self) -> float:
        """Seconds since the epoch by the server's clock, by which objects' times are: ours may be wrong."""
        return time.time() + self._ahead

    def _compare_clocks(self, told: str | None, sent: float) -> None:
        """By the time that the server has ``told``, in whole seconds, of some moment since ``sent``."""
        try:
            at = parsedate_to_datetime(told or "").timestamp()
        except (ValueError, TypeError):
            return  # it keeps it to itself
        self._ahead = at - min(max(at, sent - 1.0), time.time())

    async def learn_versions(self) -> None:
        """Find out which of the versions that we can use are served. ``budget_version`` is "" for none."""
        try:
            group = await self._call("GET", "/apis/policy")
        except ApiError as error:
            if not error.gone:
                raise
            return
        served = {version["version"] for version in group.get("versions", ())}
        self.budget_version = next((v for v in ("v1", "v1beta1") if v in served), "")

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object, None where there is none."""
        try:
            found: dict[str, Any] = await self._call("GET", self._path(kind, namespace, name))
        except ApiError as error:
            if error.gone:
                return None
            raise
        return found

    async def list(self, kind: str, namespace: str, labels: str) -> list[dict[str, Any]]:
        found = await self._call("GET", f"{self._path(kind, namespace)}?labelSelector={quote(labels)}")
        items: list[dict[str, Any]] = found.get("items") or []
        return items

    async def create(self, kind: str, namespace: str, manifest: Mapping[str, Any]) -> bool:
        """False where it exists already."""
        try:
            await self._call("POST", self._path(kind, namespace), dict(manifest))
        except ApiError as error:
            if error.conflict and error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def readiness(self, node: str) -> str:
        """Of a machine, as its condition has it: True, False, or Unknown for one that is silent or gone."""
        try:
            found = await self._call("GET", f"/api/v1/nodes/{quote(node)}")
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            return "Unknown" if error.gone else "True"  # 403: we may not know
        conditions = (found.get("status") or {}).get("conditions") or ()
        return next((str(c.get("status")) for c in conditions if c.get("type") == "Ready"), "False")

    async def remove(self, kind: str, namespace: str, name: str, uid: str, *, force: bool = False) -> None:
        """Delete it in order, if it is the one with this uid; one that is gone or another is left alone."""
        body: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        body |= {"gracePeriodSeconds": 0} if force else {}
        try:
            await self._call("DELETE", self._path(kind, namespace, name), body)
        except ApiError as error:
            if not (error.gone or error.conflict):
                raise

    async def amend(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        await self._call("PATCH", self._path(kind, namespace, name), dict(patch), "application/merge-patch+json")

    async def replace(self, kind: str, namespace: str, name: str, whole: Mapping[str, Any], part: str = "") -> Any:
        """Put it in the place of the one that has its ``resourceVersion``; ``part`` names a subresource."""
        path = self._path(kind, namespace, name) + (f"/{part}" if part else "")
        return await self._call("PUT", path, dict(whole))

    async def close(self) -> None:
        await self._api.close()

    def _path(self, kind: str, namespace: str, name: str = "") -> str:
        base = PATHS.get(kind) or f"/apis/policy/{self.budget_version}"
        return f"{base}/namespaces/{quote(namespace)}/{kind}" + (f"/{quote(name)}" if name else "")

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, content: str = "application/json"
    ) -> Any:
        """Try again what may pass. A request that was carried out though no answer came is seen by the next look."""
        pause = _PAUSE
        for left in reversed(range(_TRIES)):
            try:
                return await self._once(method, path, body, content)
            except ApiError as error:
                if not left or error.status not in (0, *_AGAIN) or (error.status == 500 and method != "GET"):
                    raise
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    async def _once(self, method: str, path: str, body: dict[str, Any] | None, content: str) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content}
        # Documents are as they should be already: the body needs none of param_serialize's conversions.
        verb, url, sent, *_ = await self._api.param_serialize(
            method=method, resource_path=path, header_params=headers, auth_settings=["BearerToken"]
        )
        at = time.time()
        try:
            answer = await self._api.call_api(verb, url, sent, body, _request_timeout=_TIMEOUT)
            data = await answer.read()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise ApiError(0, "NoAnswer", f"{method} {path}: {error or type(error).__name__}") from error
        self._compare_clocks(answer.headers.get("Date"), at)
        if not 200 <= answer.status < 300:
            raise _refused(answer.status, data)
        return json.loads(data) if data else {}


def _refused(status: int, data: bytes) -> ApiError:
    try:
        told = json.loads(data)
    except ValueError:
        return ApiError(status, "", data.decode(errors="replace")[:300])
    return ApiError(status, str(told.get("reason", "")), str(told.get("message", "")))


async def account(kubeconfig: str | None = None) -> Any:
    """How to reach the server: as a pod's service account, else as ``kubeconfig`` or $KUBECONFIG says.

    Raises UsageError.
    """
    configuration: Any = client.Configuration()
    load: Any = config
    configuration.retries = 1
    path = kubeconfig or os.environ.get("KUBECONFIG")
    try:
        try:
            if kubeconfig is not None:
                raise config.ConfigException("another way was named")
            load.load_incluster_config(configuration)
        except config.ConfigException:
            await load.load_kube_config(path, client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise UsageError(f"no way to a Kubernetes API server: {error}; set KUBECONFIG, or run in a pod") from None
    return configuration


async def connect(kubeconfig: str | None = None) -> Cluster:
    """The server, once it has answered. Raises UsageError."""
    cluster = Cluster(client.ApiClient(await account(kubeconfig)))
    try:
        await cluster.learn_versions()
    except ApiError as error:
        await cluster.close()
        raise UsageError(f"the Kubernetes API server does not answer as one: {error}") from None
    return cluster
