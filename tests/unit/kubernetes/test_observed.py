"""Pods as the server tells of them."""

from __future__ import annotations

from typing import Any

from elaunch.kubernetes.observed import read_pod, seconds, stamp
from elaunch.kubernetes.worker_pod import worker_pod
from tests.unit.kubernetes.makers import job
from tests.unit.kubernetes.test_pods import RUNS


def told(status: dict[str, Any], **metadata: Any) -> Any:
    made = worker_pod(job(), RUNS, 1, 4, ("a:1",))
    made["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-30T12:00:00Z", **metadata}
    return read_pod({**made, "status": status})


def ended(code: int, **values: Any) -> dict[str, Any]:
    return {"name": "main", "state": {"terminated": {"exitCode": code, **values}}}


def test_what_the_operator_wrote_it_reads() -> None:
    pod = told({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]})
    assert (pod.slot, pod.incarnation, pod.run, pod.digest) == (1, 4, 3, "digest")
    assert (pod.ready, pod.address, pod.alive, pod.code) == (True, "10.0.0.1", True, None)
    assert pod.since == seconds("2026-11-30T12:00:00Z")


def test_the_end_of_its_container_is_its_end_whatever_else_runs_in_it() -> None:
    others = {"name": "sidecar", "state": {"running": {}}}
    pod = told({"phase": "Running", "containerStatuses": [others, ended(71, reason="Error", message="no device")]})
    assert (pod.ended, pod.alive, pod.code, pod.message) == (True, False, 71, "no device")


def test_disruptions_are_told_from_faults() -> None:
    evicted = told({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})
    assert (evicted.reason, evicted.code) == ("Evicted", None)
    target = {"type": "DisruptionTarget", "status": "True"}
    assert told({"phase": "Failed", "conditions": [target], "containerStatuses": [ended(137)]}).reason == "Evicted"
    assert told({"phase": "Failed", "containerStatuses": [ended(137, reason="OOMKilled")]}).reason == "OOMKilled"


def test_a_pod_that_waits_says_for_what() -> None:
    full = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}
    assert told({"phase": "Pending", "conditions": [full]}).message == full["message"]
    pulls = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    assert told({"phase": "Pending", "containerStatuses": [pulls]}).message == "ImagePullBackOff: no such image"
    makes = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert told({"phase": "Pending", "containerStatuses": [makes]}).message == ""


def test_a_deleted_pod_is_leaving_until_then() -> None:
    pod = told({"phase": "Running"}, deletionTimestamp="2026-11-30T12:01:00Z")
    assert (pod.leaving, pod.alive, pod.ended) == (seconds("2026-11-30T12:01:00Z"), False, False)


def test_times_go_there_and_back() -> None:
    assert seconds(stamp(1_800_000_000.0)) == 1_800_000_000.0
    assert seconds(None) == 0.0
