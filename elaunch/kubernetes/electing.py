"""Which of several operators works: the one that holds the Lease. Its holder renews it, or stops working in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import structlog

from elaunch.clock import Clock
from elaunch.kubernetes.cluster import ApiError, Cluster
from elaunch.rendezvous.waiting import within

DURATION = 15.0  # seconds without renewal after which another may take it
RENEW = 3.0  # seconds between renewals
GIVE_UP = 10.0  # seconds without one after which the holder stops: before any other can have it
FAREWELL = 5.0  # seconds in which the Lease is given back, or left to expire


@dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease as it was when it last changed: clocks of two machines need not agree."""

    version: str
    since: float


def free(lease: Mapping[str, Any], sighting: Sighting, identity: str, now: float) -> bool:
    """Whether ``identity`` may take the Lease at ``now``, in seconds of the clock that ``sighting`` is of."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    return holder in ("", identity) or now >= sighting.since + float(spec.get("leaseDurationSeconds") or DURATION)


def held_by(lease: Mapping[str, Any] | None, name: str, identity: str, at: datetime) -> dict[str, Any]:
    """The Lease as its new holder, or the same one, writes it. ``identity`` is "" to give it back."""
    before = (lease or {}).get("spec") or {}
    micros = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    same = before.get("holderIdentity") == identity
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(DURATION) if identity else 1,
        "renewTime": micros,
        "acquireTime": before.get("acquireTime", micros) if same else micros,
        "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same or not identity else 1),
    }
    metadata = {"name": name, **({"resourceVersion": lease["metadata"]["resourceVersion"]} if lease else {})}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


class Candidate:
    """One operator that would lead."""

    def __init__(self, cluster: Cluster, namespace: str, name: str, identity: str, clock: Clock) -> None:
        self._cluster = cluster
        self._namespace, self._name, self._identity = namespace, name, identity
        self._clock = clock
        self._sighting = Sighting("", 0.0)
        self._renewed = 0.0

    async def win(self) -> None:
        """Return once the Lease is ours."""
        told = False
        while not await self._bid():
            if not told:
                structlog.get_logger().info("operator_waits", text=f"another operator holds the Lease {self._name}")
            told = True
            await asyncio.sleep(RENEW)

    async def hold(self) -> None:
        """Return when the Lease is lost, or may be: a server that keeps us waiting does not hold that up."""
        while (left := self._renewed + GIVE_UP - self._clock.boottime()) > 0:
            try:
                held = await within(left, self._renew())
            except asyncio.TimeoutError:
                return
            if not held and self._renewed == 0.0:
                return

    async def _renew(self) -> bool:
        await asyncio.sleep(RENEW)
        return await self._bid()

    async def resign(self) -> None:
        """Let another have it at once."""
        try:
            await within(FAREWELL, self._give_back())
        except (ApiError, asyncio.TimeoutError) as error:
            why = error if isinstance(error, ApiError) else f"no answer within {FAREWELL:.0f} s"
            structlog.get_logger().warning("lease", text=f"the Lease {self._name} was not given back: {why}")

    async def _give_back(self) -> None:
        lease = await self._cluster.get("leases", self._namespace, self._name)
        if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
            await self._write(lease, "")

    async def _bid(self) -> bool:
        """Take or renew it. After False it is ours no more where another is known to have it (``_renewed`` is 0)."""
        before = self._clock.boottime()
        try:
            lease = await self._cluster.get("leases", self._namespace, self._name)
            if lease is not None:
                version = lease["metadata"]["resourceVersion"]
                if version != self._sighting.version:
                    self._sighting = Sighting(version, before)
                if not free(lease, self._sighting, self._identity, before):
                    self._renewed = 0.0
                    return False
            await self._write(lease, self._identity)
        except ApiError as error:
            structlog.get_logger().warning("lease", text=f"the Lease {self._name} was not renewed: {error}")
            return False
        self._renewed = before
        return True

    async def _write(self, lease: Mapping[str, Any] | None, identity: str) -> None:
        manifest = held_by(lease, self._name, identity, datetime.now(timezone.utc))
        if lease is None:
            if not await self._cluster.create("leases", self._namespace, manifest):
                raise ApiError(409, "Conflict", "another operator was first")
        else:
            await self._cluster.replace("leases", self._namespace, self._name, manifest)
