"""That the Kubernetes of the tests does with pods what a real one does, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kubernetes.cluster import Cluster, wait_until
from tests.kubernetes.conftest import Apply
from tests.kubernetes.control_plane import clear_what_killed_runs_left
from tests.kubernetes.installed import ROOT
from tests.kubernetes.manifests import headless_service, job, pod, python, shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]
SERVE = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, h.ThreadingHTTPServer, port=8000)"
ON_TERM = "trap 'echo stopping; sleep 0.5; echo stopped; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo ready; sleep 1000"


def container(told: dict[str, Any] | None) -> dict[str, Any]:
    """The status of a pod's first container."""
    found = ((told or {}).get("status") or {}).get("containerStatuses") or [{"state": {}, "restartCount": 0}]
    return dict(found[0])


def test_a_job_ends_with_its_exit_code_and_its_log(cluster: Cluster, namespace: str, apply: Apply) -> None:
    fails = pod("fails", shell("echo $GREETING from $(hostname); exit 5", env=[{"name": "GREETING", "value": "hello"}]))
    apply(job("works", pod("works", shell("echo fine"))), job("fails", fails))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Complete", "job/works", "--timeout=180s")
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Failed", "job/fails", "--timeout=180s")
    (failed,) = cluster.pods(namespace, "job-name=fails")
    ended = container(failed)["state"]["terminated"]
    assert (failed["status"]["phase"], ended["exitCode"], ended["reason"]) == ("Failed", 5, "Error")
    name = failed["metadata"]["name"]
    assert cluster.kubectl("logs", "-n", namespace, "-f", name).stdout == f"hello from {name}\n"
    assert cluster.logs(namespace, name) == f"hello from {name}\n"


def test_pods_find_each_other_by_name_and_the_host_reaches_them(cluster: Cluster, namespace: str, apply: Apply) -> None:
    ask = "import urllib.request as r; print(r.urlopen('http://a.peers:8000/etc/hostname', timeout=5).status)"
    apply(
        headless_service("peers", {"of": "peers"}, 8000),
        pod("a", python(SERVE), labels={"of": "peers"}, hostname="a", subdomain="peers"),
        pod(
            "b", shell(f"until getent hosts a.peers; do sleep 0.1; done; until python -c {json.dumps(ask)}; do :; done")
        ),
    )
    cluster.wait_phase(namespace, "b", "Succeeded")
    address = cluster.wait_phase(namespace, "a", "Running")["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8000/", timeout=10) as answer:
        assert answer.status == 200


def test_deletion_is_a_sigterm_and_the_grace(cluster: Cluster, namespace: str, apply: Apply) -> None:
    apply(pod("polite", shell(ON_TERM), terminationGracePeriodSeconds=200))
    apply(pod("deaf", shell(DEAF), terminationGracePeriodSeconds=3))
    for name in ("polite", "deaf"):
        _ready(cluster, namespace, name)
    cluster.kubectl("delete", "-n", namespace, "pod", "polite", "deaf", "--wait=false")
    cluster.wait_gone(namespace, "polite", 150)
    assert cluster.logs(namespace, "polite") == "ready\nstopping\nstopped\n"
    cluster.wait_gone(namespace, "deaf")
    assert not cluster.processes(namespace)


def test_a_failed_liveness_probe_starts_the_container_again(cluster: Cluster, namespace: str, apply: Apply) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/alive"]}, "periodSeconds": 1, "failureThreshold": 1}
    lives = "touch /tmp/alive; trap 'exit 9' TERM; sleep 2; rm /tmp/alive; while :; do sleep 0.05; done"
    sick = shell(lives, livenessProbe={**probe, "initialDelaySeconds": 1})
    apply(pod("sick", sick, restartPolicy="Always", terminationGracePeriodSeconds=30))

    def restarted() -> dict[str, Any] | None:
        told = container(cluster.pod(namespace, "sick"))
        return told if told["restartCount"] >= 1 and "running" in told["state"] else None

    assert cluster.wait("a restart", restarted)["lastState"]["terminated"]["exitCode"] == 9


def test_a_drain_evicts_what_the_budget_lets_go(cluster: Cluster, namespace: str, apply: Apply) -> None:
    budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
    apply({**budget, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}})
    apply(*(pod(name, shell(ON_TERM), nodeName="node2", terminationGracePeriodSeconds=30) for name in ("kept", "goes")))
    for name in ("kept", "goes"):
        _ready(cluster, namespace, name)
    allowed = f"/apis/policy/v1beta1/namespaces/{namespace}/poddisruptionbudgets/keep"
    cluster.wait("the budget", lambda: (cluster.get(allowed) or {}).get("status", {}).get("currentHealthy") == 1)
    drained = cluster.kubectl("drain", "node2", "--force", "--timeout=3s", check=False)
    try:
        assert "disruption budget" in drained.stderr
        cluster.wait_gone(namespace, "goes")
        assert cluster.logs(namespace, "goes").endswith("stopped\n")
        assert cluster.wait_phase(namespace, "kept", "Running")["metadata"].get("deletionTimestamp") is None
    finally:
        cluster.kubectl("uncordon", "node2")


def test_pods_of_a_lost_node_are_evicted_and_it_comes_back(cluster: Cluster, namespace: str, apply: Apply) -> None:
    """Of one that crashed no process is left; of one that was cut off they go on until it hears of the eviction."""
    for node, name in (("node2", "cut"), ("node3", "crashed")):
        apply(pod(name, shell(ON_TERM), nodeName=node, terminationGracePeriodSeconds=30))
        _ready(cluster, namespace, name)
    cluster.crash("node3")
    cluster.cut("node2")
    assert len(cluster.processes(namespace)) in (1, 2)  # a shell, and what it sleeps by
    for node, name in (("node2", "cut"), ("node3", "crashed")):
        cluster.wait(f"{node} to be missed", lambda node=node: not cluster.ready(node))  # type: ignore[misc]
        cluster.wait(f"{name} to be evicted", lambda name=name: _deleted(cluster, namespace, name))  # type: ignore[misc]
    assert len(cluster.processes(namespace)) in (1, 2)
    for node, name in (("node2", "cut"), ("node3", "crashed")):
        cluster.recover(node)
        cluster.wait_gone(namespace, name)
    assert cluster.logs(namespace, "cut") == "ready\nstopping\nstopped\n"
    assert cluster.logs(namespace, "crashed") == "ready\n"


def test_pods_live_on_without_the_api_server(cluster: Cluster, namespace: str, apply: Apply) -> None:
    ends = "echo ready; until [ -e /out/end ]; do sleep 0.1; done; exit 6"
    mounts = {"volumeMounts": [{"name": "out", "mountPath": "/out"}]}
    stays = [{"operator": "Exists"}]  # also where the server is away for so long that it misses the nodes afterwards
    out = [{"name": "out", "hostPath": {"path": str(cluster.home)}}]
    apply(pod("ends", shell(ends, **mounts), volumes=out, tolerations=stays))
    _ready(cluster, namespace, "ends")
    with cluster.without_server():
        (cluster.home / "end").touch()
        wait_until("the end", lambda: not cluster.processes(namespace))
    assert container(cluster.wait_phase(namespace, "ends", "Failed"))["state"]["terminated"]["exitCode"] == 6
    cluster.nodes()


def test_nothing_is_left_of_a_killed_test_run() -> None:
    source = """
import contextlib, sys, time
import psutil
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.manifests import pod, shell
def named(processes):
    with contextlib.suppress(psutil.Error):
        return sorted(process.name() for process in processes)
with Cluster(1) as cluster, cluster.namespace() as namespace:
    left = pod("left", shell("(setsid sleep 999 &); sleep 999"))
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", left)
    cluster.wait("its processes", lambda: named(cluster.processes(namespace)) == ["sh", "sleep", "sleep"])
    print(*(process.pid for process in cluster.processes(namespace)), cluster.name, cluster.home, flush=True)
    time.sleep(600)
"""
    # A process of its own, whose descendants are all that there is of the cluster.
    run = subprocess.Popen(
        [sys.executable, "-c", source], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    *pids, name, home = run.stdout.readline().split()
    everything = psutil.Process(run.pid).children(recursive=True)
    assert {int(pid) for pid in pids} <= {process.pid for process in everything}
    assert {"etcd", "kube-apiserver", "kube-scheduler"} <= {process.name() for process in everything}
    run.send_signal(signal.SIGKILL)
    run.communicate()

    def left() -> list[psutil.Process]:
        return [process for process in everything if _lives(process)]

    wait_until(lambda: f"no process left: {left()}", lambda: not left(), 60)
    wait_until("the network gone", lambda: not Path(f"/sys/class/net/{name}").exists(), 120)
    clear_what_killed_runs_left()  # as the next cluster does
    assert not Path(home).exists()


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _ready(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.wait(f"{name} to run", lambda: cluster.logs(namespace, name) == "ready\n")


def _deleted(cluster: Cluster, namespace: str, name: str) -> bool:
    return "deletionTimestamp" in (cluster.pod(namespace, name) or {"metadata": {}})["metadata"]
