"""A node: its object, the lease that it renews, its pods; and how it crashes and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Mapping
from typing import Any

from tests.kubernetes.api import MERGE, ApiError
from tests.kubernetes.machine import KUBELET_PORT, Machine
from tests.kubernetes.pod_life import PodLife

Object = Mapping[str, Any]
LEASE = 8  # seconds
_BEAT = 1.5  # seconds
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Node:
    """Number ``number`` of a machine, from 1."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number, self.name = machine, number, f"node{number}"
        self.address = f"{machine.network}.{number}"
        self.up = asyncio.Event()
        self.up.set()
        self._pods: dict[str, PodLife] = {}
        self._beating = asyncio.ensure_future(self._beat())

    def seen(self, kind: str, pod: Object) -> None:
        """A pod of this node is there, has changed, or is gone."""
        uid, known = pod["metadata"]["uid"], self._pods.get(pod["metadata"]["uid"])
        if kind == "DELETED":
            if known:
                known.finish(0)
        elif known:
            known.update(pod)
        elif pod["status"].get("phase") not in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
            known = self._pods[uid] = PodLife(self, pod)
            known.update(pod)

    def forget(self, pod: PodLife) -> None:
        self._pods.pop(pod.uid, None)

    async def crash(self) -> None:
        """No heartbeat more, no word to the API, and all processes are gone."""
        self.up.clear()
        await asyncio.gather(*(pod.kill() for pod in self._pods.values()))

    async def cut(self) -> None:
        """No packet comes or goes, neither the node's nor its pods'; their processes run."""
        self.up.clear()
        await asyncio.gather(*(pod.plug("down") for pod in self._pods.values()))

    async def recover(self) -> None:
        """The node is back, finds its containers as they are, and does with its pods what is wanted of them by now."""
        await asyncio.gather(*(pod.plug("up") for pod in self._pods.values()))
        self.up.set()

    def write_hosts(self) -> None:
        for pod in self._pods.values():
            pod.write_hosts()

    async def _beat(self) -> None:
        await self._register()
        while True:
            await self.up.wait()
            try:
                await self._renew()
            except ApiError as error:
                self.machine.note(f"{self.name}: {error}")
            await asyncio.sleep(_BEAT)

    async def _register(self) -> None:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": f"zone{self.number % 2}",
        }
        await self._create("/api/v1/nodes", {"metadata": {"name": self.name, "labels": labels}})
        await self._tell()
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE, "renewTime": _micro()}
        await self._create(_LEASES, {"metadata": {"name": self.name}, "spec": spec})

    async def _create(self, path: str, body: dict[str, Any]) -> None:
        """An answer that got lost had the object made already."""
        with contextlib.suppress(ApiError):
            await self.machine.api.call("POST", path, body)

    async def _renew(self) -> None:
        body = {"spec": {"renewTime": _micro()}}
        await self.machine.api.call("PATCH", f"{_LEASES}/{self.name}", body, MERGE)
        await self._tell_again_if_doubted()

    async def _tell_again_if_doubted(self) -> None:
        """The controller manager has set Ready to Unknown while this node was away."""
        node = await self.machine.api.call("GET", f"/api/v1/nodes/{self.name}", resourceVersion="0")
        ready = [c["status"] for c in node["status"].get("conditions") or () if c["type"] == "Ready"]
        if ready != ["True"]:
            await self._tell()

    async def _tell(self) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "60", "nvidia.com/gpu": "8"}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        kinds = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "conditions": [
                {
                    "type": kind,
                    "status": value,
                    "reason": "NodeAgentOfTheTests",
                    "message": "",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, value in kinds.items()
            ],
        }
        await self.machine.api.call("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": status}, MERGE)


def _micro() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
