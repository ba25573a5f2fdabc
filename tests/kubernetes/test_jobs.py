"""Jobs without the operator: the pods that a rendered Indexed Job would have, trained in for real.

This release of Kubernetes has no Indexed Jobs yet, so that the test makes the pods that their controller would make:
of the template, with index, host name and subdomain. Users, file systems and capabilities are those of the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from elaunch.schedulers.manifests import documents_of
from elaunch.schedulers.pod_wishes import wishes_of
from tests.kubernetes.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PROGRAM = str(Path(__file__).parents[1] / "programs" / "ledgering.py")


@dataclass
class Indexed:
    """The pods of an Indexed Job, by their index."""

    cluster: Cluster
    namespace: str
    out: Path
    template: dict[str, Any]
    base: str = "train"
    made: dict[int, int] = field(default_factory=dict)

    def create(self, index: int) -> str:
        """Pod ``index``, anew; its name."""
        self.made[index] = self.made.get(index, 0) + 1
        body = deepcopy(self.template)
        name = f"{self.base}-{index}-{self.made[index]}"
        labels = body["metadata"]["labels"] | {"batch.kubernetes.io/job-completion-index": str(index)}
        body |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}}
        spec = body["spec"]
        spec["hostname"] = f"{self.base}-{index}"
        (container,) = spec["containers"]
        env = {"JOB_COMPLETION_INDEX": str(index), "OUT": "/out", "HOSTNAME": f"{self.base}-{index}"}
        container["env"] += [{"name": key, "value": value} for key, value in env.items()]
        container["volumeMounts"].append({"name": "out", "mountPath": "/out"})
        spec["volumes"].append({"name": "out", "hostPath": {"path": str(self.out)}})
        self.cluster.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        return name

    def told(self, event: str, **values: Any) -> list[dict[str, Any]]:
        path = self.out / "starts.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        wanted = {"event": event, **values}.items()
        return [e for line in lines if line.endswith("}") and wanted <= (e := json.loads(line)).items()]

    def code(self, pod: str) -> int | None:
        """What its container has ended with; None while it runs."""
        found = self.cluster.pod(self.namespace, pod)
        states = [s["state"] for s in (found or {"status": {}})["status"].get("containerStatuses", ())]
        return next((int(s["terminated"]["exitCode"]) for s in states if "terminated" in s), None)

    def ready(self, pod: str) -> bool:
        found = self.cluster.pod(self.namespace, pod)
        conditions = (found or {"status": {}})["status"].get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def logs(self) -> str:
        names = [f"{self.base}-{index}-{n}" for index, count in self.made.items() for n in range(1, count + 1)]
        return "\n".join(f"--- {name}\n{self.cluster.logs(self.namespace, name)}{self.state(name)}" for name in names)

    def state(self, pod: str) -> str:
        found = self.cluster.pod(self.namespace, pod)
        return json.dumps((found or {"status": {}})["status"].get("containerStatuses"))

    def wait(self, what: str, condition: Any, seconds: float = 180.0) -> Any:
        try:
            return self.cluster.wait(what, condition, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None


@pytest.fixture
def indexed(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Any]:
    out = tmp_path / "out"
    out.mkdir()
    for folder in (out, *list(out.parents)[:3]):  # the pods' user is not ours
        folder.chmod(0o777)

    def make(*options: str, **wishes: Any) -> Indexed:
        told = {"kind": "job", "name": "train", "image": "any", "program": [PROGRAM], "cpus": "500m", "memory": "512Mi"}
        wanted = wishes_of({**told, **wishes, "options": ["--start=exec", *options]})
        job, service = documents_of(wanted)
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/services", service)
        return Indexed(cluster, namespace, out, job["spec"]["template"])

    return make


def test_pods_that_need_no_option_train_and_end(indexed: Any) -> None:
    """As another user, below a root that is read-only, without a home."""
    job = indexed("--rdzv-conf=last_call_timeout=2", nodes=3)
    pods = [job.create(index) for index in (2, 1, 0)]
    job.wait("all pods to be ready", lambda: all(map(job.ready, pods)))
    job.wait("a checkpoint", (job.out / "checkpoint.json").exists)
    (job.out / "finish").touch()
    for pod in pods:
        job.wait(f"{pod} to end", lambda pod=pod: job.code(pod) is not None)
    assert [job.code(pod) for pod in pods] == [0, 0, 0], job.logs()
    starts = {e["rank"]: e["host"] for e in job.told("start", generation=1)}
    assert starts == {0: "train-0", 1: "train-1", 2: "train-2"}  # by index, not by who came first


def test_a_deleted_pod_has_85_and_its_replacement_takes_its_ranks(indexed: Any) -> None:
    """The first one, which had started the job's etcd; the others are never started again."""
    job = indexed(nodes=3, grace=30, env=["STEPS=100000"])
    pods = [job.create(index) for index in range(3)]
    job.wait("a checkpoint", (job.out / "checkpoint.json").exists)
    job.wait("three members of the etcd", lambda: "etcd_trio" in job.logs())
    job.cluster.request("DELETE", f"/api/v1/namespaces/{job.namespace}/pods/{pods[0]}")
    job.wait("85 in its log", lambda: "work remains" in job.cluster.logs(job.namespace, pods[0]))
    job.cluster.wait_gone(job.namespace, pods[0])
    job.wait("all ranks' notice", lambda: {e["rank"] for e in job.told("noticed")} == {0, 1, 2})
    saved = json.loads((job.out / "checkpoint.json").read_text())["step"]
    assert [job.code(pod) for pod in pods[1:]] == [None, None]
    job.create(0)
    again = job.wait("generation 2", lambda: len(found := job.told("start", generation=2)) == 3 and found)
    assert {(e["rank"], e["host"]) for e in again} == {(n, f"train-{n}") for n in range(3)}
    assert {e["step"] for e in again} == {saved}


def test_pods_of_a_trainjob_run_elaunch_for_torchrun(indexed: Any) -> None:
    """With what Kubeflow's Trainer tells them, and no more; and its first pod may be lost."""
    job = indexed(nodes=3)
    job.base = "tj-node-0"
    spec = job.template["spec"]
    spec["subdomain"] = "tj"
    told = {
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "tj-node-0-0.tj",
        "PET_MASTER_PORT": "29500",
    }
    env = [{"name": name, "value": value} for name, value in told.items()]
    index = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    spec["containers"][0]["env"] = [*env, {"name": "PET_NODE_RANK", "valueFrom": index}]
    selector = {"elaunch.dev/job": "train"}
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector, "ports": [{"port": 29500}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tj"}, "spec": service}
    job.cluster.request("POST", f"/api/v1/namespaces/{job.namespace}/services", body)
    pods = [job.create(index) for index in range(3)]
    job.wait("a checkpoint", (job.out / "checkpoint.json").exists)
    job.wait("three members of the etcd", lambda: "etcd_trio" in job.logs())
    job.cluster.request("DELETE", f"/api/v1/namespaces/{job.namespace}/pods/{pods[0]}")
    job.wait("85 in its log", lambda: "work remains" in job.cluster.logs(job.namespace, pods[0]))
    job.cluster.wait_gone(job.namespace, pods[0])
    job.create(0)
    again = job.wait("generation 2", lambda: len(found := job.told("start", generation=2)) == 3 and found)
    assert {(e["rank"], e["host"]) for e in again} == {(n, f"tj-node-0-{n}") for n in range(3)}
