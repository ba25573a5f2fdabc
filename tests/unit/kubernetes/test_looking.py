"""What one look makes of the objects that are there."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from elaunch.kubernetes.cluster import Cluster
from elaunch.kubernetes.looking import look
from elaunch.kubernetes.names import etcd_name
from elaunch.kubernetes.observed import Observed
from elaunch.kubernetes.way import Way
from tests.unit.kubernetes.makers import UID, job


class Objects:
    """A cluster that has these pods, and an etcd's set."""

    budget_version = ""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self._pods = pods

    async def list(self, *_: str) -> Any:
        return self._pods

    async def get(self, kind: str, _: str, name: str) -> Any:
        return owned(name, UID, uid="set") if (kind, name) == ("statefulsets", etcd_name("job")) else None


def owned(name: str, by: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "ownerReferences": [{"uid": by}]}, "spec": {}}


def looked(*pods: dict[str, Any], shown: dict[str, bytes] | None = None) -> Observed:
    async def run() -> Observed:
        way = Way("team.job", asyncio.Event())
        way.show(shown or {})
        try:
            return await look(cast(Cluster, Objects(*pods)), job(), {}, way)
        finally:
            await way.close()

    return asyncio.run(run())


def test_pods_are_the_jobs_or_its_etcds_or_strangers() -> None:
    seen = looked(owned("job-0-1", UID), owned("job-etcd-0", "set"), owned("job-1-1", "another"))
    assert [pod.name for pod in seen.pods] == ["job-0-1"]
    assert [pod.name for pod in seen.members] == ["job-etcd-0"]
    assert seen.strangers == ("job-1-1",)


def test_a_secret_that_the_job_names_no_more_is_shown_no_more() -> None:
    """Else pods would be told of files that are not mounted any more."""
    seen = looked(shown={"ca.crt": b"x", "username": b"me"})
    assert (seen.shown, seen.user) == ((), "")
