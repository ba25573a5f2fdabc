"""The API server's bad days, played by a programmable one: too busy, broken, changed meanwhile, not there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import kmock
import pytest
from kubernetes.aio import client

from elaunch.kubernetes import cluster as module
from elaunch.kubernetes.cluster import ApiError, Cluster
from elaunch.kubernetes.names import PLURAL

JOB = f"/apis/elaunch.dev/v1alpha1/namespaces/team/{PLURAL}/job"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.001)


def against(server: Callable[[Any], None], use: Callable[[Cluster], Awaitable[Any]]) -> Any:
    """What ``use`` makes of an API that ``server`` has programmed; and how it was asked."""

    async def run() -> Any:
        async with kmock.RawHandler() as handler, kmock.Server(handler):
            server(handler)
            configuration = client.Configuration()
            configuration.host = str(handler.url).rstrip("/")
            configuration.retries = 1
            found = Cluster(client.ApiClient(configuration))
            try:
                return await use(found), [(r.method.value, str(r.url.path)) for r in handler]
            finally:
                await found.close()

    return asyncio.run(run())


def refusal(status: int, reason: str, text: str = "no") -> kmock.Response:
    return kmock.Response(status=status, payload={"kind": "Status", "reason": reason, "message": text, "code": status})


def answers(*given: kmock.Response) -> Callable[[Any], kmock.Response]:
    """One answer after the other, the last again and again."""
    left = list(given)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    def server(api: Any) -> None:
        api[f"get {JOB}"] << answers(
            refusal(status, "Busy"), kmock.Response(status=200, payload={"metadata": {"name": "job"}})
        )

    found, asked = against(server, lambda cluster: cluster.get(PLURAL, "team", "job"))
    assert found == {"metadata": {"name": "job"}}
    assert len(asked) == 2


def test_what_does_not_pass_is_an_error_with_the_servers_words() -> None:
    def server(api: Any) -> None:
        api[f"get {JOB}"] << answers(refusal(500, "InternalError", "etcdserver: request timed out"))

    with pytest.raises(ApiError, match="500 InternalError: etcdserver: request timed out"):
        against(server, lambda cluster: cluster.get(PLURAL, "team", "job"))


def test_what_is_not_there_is_none_and_no_error() -> None:
    def server(api: Any) -> None:
        api[f"get {JOB}"] << answers(refusal(404, "NotFound"))
        api["delete"] << answers(refusal(404, "NotFound"))

    async def use(cluster: Cluster) -> Any:
        await cluster.remove("pods", "team", "job-0-1", "uid")
        return await cluster.get(PLURAL, "team", "job")

    assert against(server, use)[0] is None


def test_a_write_that_came_too_late_is_a_conflict_and_not_tried_again() -> None:
    def server(api: Any) -> None:
        api["put"] << answers(refusal(409, "Conflict", "the object has been modified"))

    async def use(cluster: Cluster) -> bool:
        with pytest.raises(ApiError) as error:
            await cluster.replace(PLURAL, "team", "job", {"status": {}}, "status")
        return error.value.conflict

    conflict, asked = against(server, use)
    assert conflict
    assert asked == [("PUT", f"{JOB}/status")]


def test_what_exists_already_was_created() -> None:
    """Also where the first answer was lost and the request was sent again."""

    def server(api: Any) -> None:
        api["post"] << answers(refusal(503, "ServiceUnavailable"), refusal(409, "AlreadyExists"))

    assert against(server, lambda cluster: cluster.create("pods", "team", {}))[0] is False


def test_a_name_that_is_being_deleted_is_no_success() -> None:
    def server(api: Any) -> None:
        api["post"] << answers(refusal(409, "Conflict", "object is being deleted"))

    with pytest.raises(ApiError, match="being deleted"):
        against(server, lambda cluster: cluster.create("pods", "team", {}))


@pytest.mark.parametrize(("served", "chosen"), [(["v1", "v1beta1"], "v1"), (["v1beta1"], "v1beta1"), (["v2"], "")])
def test_the_server_is_asked_which_versions_it_serves(served: list[str], chosen: str) -> None:
    def server(api: Any) -> None:
        api["get /apis/policy"] << {"versions": [{"version": version} for version in served]}

    async def use(cluster: Cluster) -> str:
        await cluster.learn_versions()
        return cluster.budget_version

    assert against(server, use)[0] == chosen


def test_a_server_without_disruption_budgets_will_do() -> None:
    def server(api: Any) -> None:
        api["get /apis/policy"] << answers(refusal(404, "NotFound"))

    async def use(cluster: Cluster) -> str:
        await cluster.learn_versions()
        return cluster.budget_version

    assert against(server, use)[0] == ""


@pytest.mark.parametrize("ahead", [0, 900, -900])
def test_the_time_is_the_servers(ahead: int) -> None:
    """Else an operator whose clock is wrong takes pods that have just been asked to end for lost, or waits for ever."""

    def answer(_: Any) -> kmock.Response:
        return kmock.Response(status=200, payload={}, headers={"Date": formatdate(time.time() + ahead, usegmt=True)})

    def server(api: Any) -> None:
        api[f"get {JOB}"] << answer

    async def use(cluster: Cluster) -> tuple[float, float]:
        sent = time.time()
        await cluster.get(PLURAL, "team", "job")
        return cluster.now() - time.time(), time.time() - sent

    found, took = against(server, use)[0]
    assert found == pytest.approx(ahead, abs=2.5 + took)


def test_a_server_without_a_clock_is_believed_to_have_ours() -> None:
    def server(api: Any) -> None:
        api[f"get {JOB}"] << kmock.Response(status=200, payload={}, headers={"Date": "yesterday"})

    async def use(cluster: Cluster) -> float:
        await cluster.get(PLURAL, "team", "job")
        return cluster.now() - time.time()

    assert against(server, use)[0] == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], "True"),
        ([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}], "Unknown"),
        ([{"type": "Ready", "status": "False"}], "False"),
        ([], "False"),
    ],
)
def test_a_machine_is_as_ready_as_its_condition_says(conditions: list[dict[str, str]], ready: str) -> None:
    def server(api: Any) -> None:
        api["get /api/v1/nodes/node1"] << {"status": {"conditions": conditions}}

    assert against(server, lambda cluster: cluster.readiness("node1"))[0] == ready


@pytest.mark.parametrize(("status", "ready"), [(404, "Unknown"), (403, "True")])
def test_a_machine_that_is_gone_is_unknown_and_one_that_may_not_be_asked_for_is_none_that_is_lost(
    status: int, ready: str
) -> None:
    def server(api: Any) -> None:
        api["get /api/v1/nodes/node1"] << answers(refusal(status, "No"))

    assert against(server, lambda cluster: cluster.readiness("node1"))[0] == ready
