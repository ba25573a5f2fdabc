"""ElasticJobs in a real cluster: pods run elaunch, and whatever happens to them or to the operator, they go on."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.operators import Job, Operator, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[Operator]:
    with serving(cluster) as running:
        yield running
        assert "Traceback" not in running.said()


@pytest.fixture
def job(cluster: Cluster, namespace: str, operator: Operator, tmp_path: Path) -> Job:
    tmp_path.chmod(0o755)
    return Job(cluster, namespace, tmp_path / "out")


REFUSED = [
    ({"replicas": 0}, "spec.replicas in body should be greater than or equal to 1"),
    ({"program": []}, "spec.program in body should have at least 1 items"),
    ({"nprocPerNode": "many"}, "spec.nprocPerNode in body should match"),
    ({"etcd": {"managed": {"members": 2}}}, "spec.etcd.managed.members: Unsupported value: 2"),
    ({"etcd": {"external": {"endpoints": ["nowhere"]}}}, "spec.etcd.external.endpoints in body should match"),
    ({"failurePolicy": {"rules": [{"action": "Pray", "exitCodes": {"values": [1]}}]}}, 'Unsupported value: "Pray"'),
    ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers in body should have at least 1"),
]


def test_the_server_refuses_what_is_no_job_and_says_why(job: Job) -> None:
    for spec, text in REFUSED:
        with pytest.raises(Refused) as refused:
            job.create(**spec)
        assert (refused.value.status, text in str(refused.value)) == (422, True), str(refused.value)
    job.create(suspend=True)
    held = job.cluster.get(job.path)
    assert held is not None
    assert {name: held["spec"][name] for name in ("replicas", "spares", "command")} == {
        "replicas": 1,
        "spares": 0,
        "command": ["elaunch"],
    }


def test_the_operator_refuses_what_does_not_fit_together(job: Job) -> None:
    job.create(replicas=2, minReplicas=3, options=["--nnodes=4"])
    told = job.wait("the refusal", lambda: job.condition("InvalidSpec").get("status") == "True" and job.status)
    assert told["phase"] == "Invalid"
    assert "spec.minReplicas is 3, above spec.replicas, which is 2" in told["message"]
    assert "spec.options has --nnodes" in told["message"]
    job.wait("the event", lambda: [e for e in job.events() if (e["reason"], e["type"]) == ("InvalidSpec", "Warning")])
    assert job.pods() == []
    job.patch(minReplicas=1, options=[], suspend=True)
    job.wait("no complaint", lambda: job.status["phase"] == "Suspended")
    assert job.condition("InvalidSpec")["status"] == "False"


def test_a_job_lives_through_all_that_is_done_to_it(job: Job, operator: Operator) -> None:
    """Scaled up, a pod deleted, scaled down, suspended, resumed, and to a good end; the operator dies between."""
    cluster, namespace = job.cluster, job.namespace
    job.create(replicas=2, minReplicas=1)
    job.wait_running(2)
    row = cluster.kubectl("get", "ej", "-n", namespace, "--no-headers").stdout.split()
    assert row[:5] == ["job", "Running", "1", "2/2", "0"]
    job.wait("a recorded step", lambda: job.status.get("lastStep", 0) >= 10)

    cluster.kubectl("scale", "-n", namespace, "ej/job", "--replicas=3")
    operator.restart()
    grown = job.wait_running(3)
    assert (grown["generation"], grown["restarts"]) == (2, 0)
    assert job.names() == ["job-0-1", "job-1-1", "job-2-1"]

    operator.kill()
    cluster.kubectl("delete", "-n", namespace, "pod", "job-1-1", "--wait=false")
    operator.start()
    job.wait("another in its place", lambda: job.names() == ["job-0-1", "job-1-2", "job-2-1"])
    replaced = job.wait_running(3, after=grown["generation"])
    assert replaced["replacements"] == 0  # nobody's fault

    cluster.kubectl("scale", "-n", namespace, "ej/job", "--replicas=2")
    job.wait("two pods", lambda: len(job.pods()) == 2)
    shrunk = job.wait_running(2, after=replaced["generation"])
    assert shrunk["generation"] == replaced["generation"] + 1  # stopped once, and nobody with ranks was taken away

    cluster.kubectl("patch", "-n", namespace, "ej/job", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    operator.restart()
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Suspended", "ej/job", "--timeout=200s")
    job.wait("its pods to be gone", lambda: job.pods(alive=False) == [])
    saved = json.loads((job.out / "checkpoint.json").read_text())["step"]
    job.wait("the last step", lambda: job.status.get("lastStep") == saved)

    job.patch(suspend=False)
    resumed = job.wait_running(2, after=shrunk["generation"])
    started = job.wait("its ranks", lambda: len(found := _starts_of(job, resumed["generation"])) == 2 and found)
    assert {start["step"] for start in started} == {saved}

    (job.out / "finish").touch()
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Succeeded", "ej/job", "--timeout=200s")
    etcd = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/job-etcd"
    job.wait("etcd to go", lambda: cluster.get(etcd) is None and not cluster.processes(namespace))
    job.wait("their word", lambda: {pod["status"]["phase"] for pod in job.pods(alive=False)} == {"Succeeded"})
    told = Counter((event["reason"], event["message"]) for event in job.events())
    assert [event for event, times in told.items() if times > 1 and event[0] == "JobStarting"] == []
    assert told["JobStarting", "generation 1 starts, 2 ranks on 2 nodes: the job starts"] == 1
    operator.restart()
    cluster.kubectl("delete", "-n", namespace, "ej/job", "--timeout=200s")
    job.wait("no pod", lambda: job.pods(alive=False) == [])


def test_pods_are_replaced_though_the_operator_is_killed_again_and_again(job: Job, operator: Operator) -> None:
    """An eviction, a drained node, a crashed node, and etcd's node; other pods are left alone where that can be."""
    cluster, namespace = job.cluster, job.namespace
    job.create(replicas=2, podDisruptionBudget={"minAvailable": 1})
    status = job.wait_running(2)
    stop = threading.Event()
    killer = threading.Thread(target=_kill_at_random, args=(operator, stop), daemon=True)
    killer.start()
    try:
        evicted = job.pods()[0]
        _evict(cluster, evicted)
        job.wait("a successor", lambda: "job-0-2" in job.names())
        status = job.wait_running(2, after=status["generation"])
        assert "job-1-1" in job.names()

        node = job.pods()[1]["spec"]["nodeName"]
        words = ("--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=200s")
        cluster.kubectl("drain", node, f"--pod-selector=elaunch.dev/job={job.name},elaunch.dev/role=worker", *words)
        job.wait("a successor", lambda: "job-1-2" in job.names())
        status = job.wait_running(2, after=status["generation"])
        cluster.kubectl("uncordon", node)
        assert all(pod["spec"]["nodeName"] != node for pod in job.pods() if pod["metadata"]["name"] == "job-1-2")

        lost = _without_etcd(job)
        before = job.names()
        cluster.crash(lost["spec"]["nodeName"])
        slot = lost["metadata"]["labels"]["elaunch.dev/slot"]
        job.wait("a successor", lambda: f"job-{slot}-3" in job.names())
        status = job.wait_running(2, after=status["generation"])
        assert len(set(job.names()) & set(before)) == 1
    finally:
        stop.set()
        killer.join(60)
    cluster.recover(lost["spec"]["nodeName"])
    job.wait("the lost pod to go", lambda: len(job.pods(alive=False)) == 2)
    job.wait("its ranks", lambda: len(_starts_of(job, status["generation"])) == 2)
    starts = job.starts()
    assert all(a["step"] <= b["step"] for a, b in pairwise(starts))
    generations = [start["generation"] for start in starts]
    assert max(generations) == status["generation"]

    home = _etcd(job)["spec"]["nodeName"]
    cluster.crash(home)
    job.wait_running(2, after=1000)  # with another etcd, and above all generations that the lost one had known
    cluster.recover(home)
    assert job.starts()[-1]["step"] >= starts[-1]["step"]
    cluster.request("DELETE", job.path)
    job.wait("nothing left", lambda: not job.pods(alive=False) and not cluster.processes(namespace))


def test_a_program_that_fails_ends_the_job_and_its_time_is_kept(job: Job) -> None:
    job.create(options=["--start=exec", "--max-restarts=0"], ttlSecondsAfterFinished=6)
    job.wait_running(1)
    (job.out / "fail-0").touch()
    failed = job.wait("the end", lambda: job.condition("Failed").get("status") == "True" and job.condition("Failed"))
    assert failed["reason"] == "ProgramFailed"
    assert "exited with code 3" in failed["message"]
    assert [e["type"] for e in job.events() if e["reason"] == "Failed"] == ["Warning"]
    job.wait("the resource to go in its time", lambda: job.cluster.get(job.path) is None, 120)
    job.wait("its pods too", lambda: job.pods(alive=False) == [])


def test_bad_input_is_no_reason_to_try_again(job: Job) -> None:
    job.create(options=["--no-such-option=1"])
    failed = job.wait("the end", lambda: job.condition("Failed").get("status") == "True" and job.condition("Failed"))
    assert failed["reason"] == "BadInput"
    assert "no-such-option" in failed["message"]
    assert [pod["metadata"]["name"] for pod in job.pods(alive=False)] == ["job-0-1"]


def test_what_the_server_refuses_stands_in_the_status(job: Job) -> None:
    template = job.manifest()["spec"]["template"]
    template["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
    job.create(template=template)
    said = job.wait("the refusal", lambda: job.condition("Degraded").get("reason") == "Refused" and job.status)
    assert "must be less than or equal to cpu limit" in said["message"]
    assert [e["type"] for e in job.events() if e["reason"] == "Refused"] == ["Warning"]


def test_another_operator_takes_over(job: Job, operator: Operator) -> None:
    """At once where the first one ends in order; jobs do not notice."""
    job.create(suspend=True)
    job.wait("the first one's word", lambda: job.status.get("phase") == "Suspended")
    second = Operator(job.cluster, "operator-1")
    second.start()
    try:
        job.wait("it to stand by", lambda: "operator_waits" in second.said())
        assert operator.kill(signal.SIGTERM) == 0
        job.patch(replicas=3)
        job.wait("the second one's word", lambda: job.status.get("observedGeneration", 0) >= 2)
    finally:
        second.kill(signal.SIGTERM)
        operator.start()


def _kill_at_random(operator: Operator, stop: threading.Event) -> None:
    """Each time in the midst of its first rounds, or a few seconds later."""
    choose = random.Random(6)
    while not stop.is_set():
        operator.restart()
        while not operator.works and not stop.wait(0.05):
            pass
        stop.wait(choose.choice((0.1, 0.5, 2.0, 8.0, 15.0)))


def _evict(cluster: Cluster, pod: dict[str, Any]) -> None:
    name, namespace = (pod["metadata"][key] for key in ("name", "namespace"))
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}

    def done() -> bool:
        try:
            cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        except Refused as refused:
            if refused.status != 429:  # the server has not counted yet what the budget is of
                raise
            return False
        return True

    cluster.wait(f"{name} to be evicted", done)


def _starts_of(job: Job, generation: int) -> list[dict[str, Any]]:
    return [start for start in job.starts() if start["generation"] == generation]


def _without_etcd(job: Job) -> dict[str, Any]:
    """A pod on a node that etcd is not on."""
    home = _etcd(job)["spec"]["nodeName"]
    return next(pod for pod in job.pods() if pod["spec"]["nodeName"] != home)


def _etcd(job: Job) -> dict[str, Any]:
    (etcd,) = job.cluster.pods(job.namespace, f"elaunch.dev/job={job.name},elaunch.dev/role=etcd")
    return etcd
