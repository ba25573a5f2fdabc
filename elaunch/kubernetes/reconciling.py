"""One job's loop: look, decide, write what is to be remembered, act. Nothing is kept from one round to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from elaunch.errors import CommandRefusedError, ElaunchError
from elaunch.kubernetes.actions import Action, Amend, Create, Decision, Expire, Remove, Scale
from elaunch.kubernetes.cluster import ApiError, Cluster
from elaunch.kubernetes.desired import decide
from elaunch.kubernetes.eventing import events
from elaunch.kubernetes.infrastructure import addresses
from elaunch.kubernetes.job_view import scale
from elaunch.kubernetes.looking import look
from elaunch.kubernetes.names import PLURAL
from elaunch.kubernetes.observed import Observed
from elaunch.kubernetes.spec import JobSpec, read
from elaunch.kubernetes.way import Way
from elaunch.rendezvous.waiting import within

_REST = 0.1  # seconds between two rounds, so that what changes together is looked at once
_AFTER_ERROR, _LONGEST = 1.0, 30.0
_UNWRITTEN, _REFUSED = 10.0, 300.0  # seconds before a scale command is tried again
_AT_ONCE = 32  # requests of one job


class Reconciler:
    """Brings one ElasticJob about until it is gone."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace, self._name = namespace, name
        self._log = structlog.get_logger().bind(namespace=namespace, job=name)
        self._way: Way | None = None
        self._job = ""
        self._trouble = ""
        self._refusal = ""
        self._scale_from = 0.0
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Return when the resource is gone, or the job is over and nothing of it is left to be done."""
        pause = _AFTER_ERROR
        try:
            while True:
                self.wake.clear()
                try:
                    again = await self.round()
                    pause = _AFTER_ERROR
                except ApiError as error:
                    if not error.conflict:  # else somebody else has written: look again
                        self._log.warning("api_error", text=str(error))
                    again, pause = pause, min(pause * 2, _LONGEST)
                if again is None:
                    return
                await asyncio.sleep(_REST)
                await self._news(again)
        finally:
            if self._way is not None:
                await self._way.close()

    async def round(self) -> float | None:
        """One round; seconds to the next, None where no other is needed. Raises ApiError."""
        found = await self._cluster.get(PLURAL, self._namespace, self._name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None  # what it owns goes with it
        spec = read(found)
        way = await self._way_of(spec)
        seen = await look(self._cluster, spec, found.get("status") or {}, way)
        seen = replace(seen, trouble=self._trouble)
        now = self._cluster.now()
        decision = decide(spec, found.get("status") or {}, seen, now)
        await self._tell(spec, seen, decision, now)
        await self._remember(found, decision.status)
        await self._act(spec, seen, decision)
        return decision.again

    async def _news(self, timeout: float) -> None:
        try:
            await within(timeout, self.wake.wait())
        except asyncio.TimeoutError:
            return

    async def _way_of(self, spec: JobSpec) -> Way:
        if self._way is not None and self._job != spec.job:  # another resource of the same name
            await self._way.close()
            self._way = None
        self._job = spec.job
        self._way = self._way or Way(spec.job, self.wake)
        return self._way

    async def _tell(self, spec: JobSpec, seen: Observed, decision: Decision, now: float) -> None:
        """Before it is remembered that they were told: an Event that exists already is the same one."""
        for event in events(spec, seen.truth, decision.notes, now):
            try:
                await self._cluster.create("events", spec.namespace, event)
            except ApiError as error:
                self._log.warning("event", text=f"not told: {event['message']}: {error}")

    async def _remember(self, found: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        if found.get("status") != status:
            await self._cluster.replace(PLURAL, self._namespace, self._name, {**found, "status": status}, "status")

    async def _act(self, spec: JobSpec, seen: Observed, decision: Decision) -> None:
        """What the server refuses, for a quota or a template that is none, stands in the next round's status."""
        doing = (self._one(spec, seen, action) for action in decision.actions)
        results = await asyncio.gather(*doing, return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if not any(isinstance(action, Scale) for action in decision.actions):
            self._refusal = ""
        self._trouble = next((str(error) for error in errors if isinstance(error, ApiError)), self._refusal)
        for error in errors:
            raise error

    async def _one(self, spec: JobSpec, seen: Observed, action: Action) -> None:
        async with self._gate:
            self._log.info("action", what=type(action).__name__, of=getattr(action, "name", ""))
            match action:
                case Create(kind, manifest):
                    await self._cluster.create(kind, spec.namespace, manifest)
                case Remove(kind, name, uid, force):
                    await self._cluster.remove(kind, spec.namespace, name, uid, force=force)
                case Amend(kind, name, patch):
                    await self._cluster.amend(kind, spec.namespace, name, patch)
                case Expire():
                    await self._cluster.remove(PLURAL, spec.namespace, spec.name, spec.uid)
                case Scale(low, high, asked):
                    await self._scale(spec, seen, low, high, asked)

    async def _scale(self, spec: JobSpec, seen: Observed, low: int, high: int, asked: int) -> None:
        """A command that was not written is given again at a later look: a refused one much later."""
        where = addresses(seen) if spec.etcd.managed else spec.etcd.endpoints
        clock = asyncio.get_running_loop().time
        if self._way is None or not where or clock() < self._scale_from:
            return
        try:
            await scale(await self._way.to(where), spec.job, low, high, asked)
        except ElaunchError as error:
            refused = isinstance(error, CommandRefusedError)
            self._refusal = str(error) if refused else ""
            self._scale_from = clock() + (_REFUSED if refused else _UNWRITTEN)
            self._log.warning("scale", text=str(error))
        else:
            self._refusal, self._scale_from = "", 0.0
