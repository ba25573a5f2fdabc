"""What the operator asks the server for: pods, service, etcd, budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from elaunch.kubernetes.etcd_set import etcd_set
from elaunch.kubernetes.infrastructure import endpoints, ensure, misfits
from elaunch.kubernetes.memory import Avoided, Memory, Run
from elaunch.kubernetes.observed import Observed, Pod
from elaunch.kubernetes.spec import defects, read
from elaunch.kubernetes.worker_pod import worker_pod
from elaunch.schedulers.manifests import PROBES
from tests.unit.kubernetes.makers import UID, job, resource

RUNS = Memory(run=Run(3, 2, 4, "digest"), floor=1000)
MEMBER = Pod("job-etcd-0", "u", "etcd", address="10.0.0.9")


def test_a_pod_is_the_template_with_what_makes_it_a_node() -> None:
    spec = job(replicas=4, minReplicas=2, options=["--max-restarts=3"], nprocPerNode=8, nodeLostSeconds=5)
    made = worker_pod(spec, RUNS, 2, 7, ("10.0.0.9:2379",))
    (container,) = made["spec"]["containers"]
    assert container["command"] == ["elaunch"]
    assert container["args"] == [
        "--nnodes=2:4",
        "--nproc-per-node=8",
        "--spares=0",
        "--rdzv-backend=etcd",
        "--rdzv-endpoint=10.0.0.9:2379",
        "--rdzv-id=team.job.0b5e9f6c",
        "--local-addr=$(ELAUNCH_POD_IP)",
        "--max-restarts=3",
        "train.py",
    ]
    values = {v["name"]: v.get("value") for v in container["env"]}
    assert (values["ELAUNCH_POD_INDEX"], values["ELAUNCH_POD_FLOOR"]) == ("2", "1000")
    assert (made["metadata"]["name"], made["spec"]["restartPolicy"]) == ("job-2-7", "Never")
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
    gone = {t["key"]: t["tolerationSeconds"] for t in made["spec"]["tolerations"]}
    assert gone == {"node.kubernetes.io/not-ready": 5, "node.kubernetes.io/unreachable": 5}


def test_the_template_itself_is_left_as_it_is() -> None:
    spec = job()
    before = repr(spec.template)
    worker_pod(spec, replace(RUNS, avoided=(Avoided("bad", 9e9),)), 0, 1, ("a:1",))
    assert repr(spec.template) == before


def test_nodes_at_fault_are_avoided_rather_or_at_all_costs() -> None:
    memory = replace(RUNS, avoided=(Avoided("worse", 9e9), Avoided("bad", 9e9)))
    rather = worker_pod(job(), memory, 0, 1, ("a:1",))["spec"]["affinity"]["nodeAffinity"]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("bad", "worse")]
    assert rather == {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {"matchFields": fields}}]
    }
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {}]}
    template = {
        "spec": {
            "containers": [{"name": "a"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        }
    }
    spec = job(template=template, failurePolicy={"avoidNodes": "Required"})
    must = worker_pod(spec, memory, 0, 1, ("a:1",))["spec"]["affinity"]["nodeAffinity"]
    found = must["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    gpu = [{"key": "gpu", "operator": "Exists"}]
    assert found == [{"matchExpressions": gpu, "matchFields": fields}, {"matchFields": fields}]


def test_the_container_named_elaunch_runs_the_job_and_the_others_are_left_alone() -> None:
    template = {"spec": {"containers": [{"name": "logs", "args": ["x"]}, {"name": "elaunch"}]}}
    logs, main = worker_pod(job(template=template), RUNS, 0, 1, ("a:1",))["spec"]["containers"]
    assert logs == {"name": "logs", "args": ["x"]}
    assert main["args"][-1] == "train.py"


def test_an_etcd_without_storage_is_named_by_address_alone() -> None:
    """An agent must not find a successor that has forgotten it by the name of the one it knew."""
    seen = Observed(members=(MEMBER,))
    assert endpoints(job(), seen) == ("10.0.0.9:2379",)
    kept = job(etcd={"managed": {"storage": {"size": "1Gi"}}})
    assert endpoints(kept, seen) == ("job-etcd-0.job-etcd.team.svc:2379", "10.0.0.9:2379")
    three = job(etcd={"managed": {"members": 3, "storage": {"size": "1Gi"}}})
    assert endpoints(three, seen) == ()  # no majority yet
    assert endpoints(job(etcd={"external": {"endpoints": ["e:2379"]}}), Observed()) == ("e:2379",)


def test_three_members_know_each_other_by_name() -> None:
    spec = job(etcd={"managed": {"members": 3, "storage": {"size": "2Gi", "storageClassName": "fast"}}})
    made = etcd_set(spec)["spec"]
    (container,) = made["template"]["spec"]["containers"]
    assert made["podManagementPolicy"] == "Parallel"
    (cluster,) = [a for a in container["args"] if a.startswith("--initial-cluster=")]
    assert cluster.count("http://job-etcd-") == 3
    (claim,) = made["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == UID


def test_what_is_there_is_not_made_again_and_a_budget_follows_the_size() -> None:
    spec = job(replicas=4)
    made = {a.manifest["kind"] + "/" + a.name: a for a in ensure(spec, Observed())}
    assert sorted(made) == ["PodDisruptionBudget/job", "Service/job", "Service/job-etcd", "StatefulSet/job-etcd"]
    there = Observed(
        service=made["Service/job"].manifest,
        etcd_service=made["Service/job-etcd"].manifest,
        etcd_set=made["StatefulSet/job-etcd"].manifest,
        budget=made["PodDisruptionBudget/job"].manifest,
    )
    assert ensure(spec, there) == []
    (amended,) = ensure(job(replicas=6), there)
    assert amended.patch == {"spec": {"minAvailable": 5}}
    old = ensure(spec, Observed(budget_version="v1beta1"))
    assert [a.manifest["apiVersion"] for a in old if a.kind == "poddisruptionbudgets"] == ["policy/v1beta1"]


def test_a_name_that_another_has_is_waited_for() -> None:
    assert [a.name for a in ensure(job(), Observed(foreign=("job",)))] == ["job-etcd", "job-etcd"]


def test_what_does_not_fit_together_is_told_with_the_values() -> None:
    spec = read(
        resource(
            replicas=2,
            minReplicas=3,
            program=[],
            options=["--rdzv_endpoint=x", "--max-restarts=1"],
            etcd={"managed": {"members": 3}},
            podDisruptionBudget={"minAvailable": 9},
        )
    )
    told = " | ".join(defects(spec))
    for text in ("minReplicas is 3", "--rdzv-endpoint", "program is empty", "without storage", "minAvailable is 9"):
        assert text in told
    assert "--max-restarts" not in told
    assert defects(job()) == []


def test_the_digest_is_of_what_pods_are_made_from_and_not_of_their_number() -> None:
    same = [job(), job(replicas=3, minReplicas=1, spares=2, suspend=True, ttlSecondsAfterFinished=5)]
    others = [job(program=["b.py"]), job(options=["--x"]), job(nprocPerNode=2), job(terminationGracePeriodSeconds=9)]
    assert len({spec.digest for spec in same}) == 1
    assert len({spec.digest for spec in (*same, *others)}) == 5


def test_etcd_may_not_do_what_the_workers_may() -> None:
    free = {"privileged": True, "runAsUser": 7, "capabilities": {"add": ["IPC_LOCK"]}}
    template = {"spec": {"containers": [{"name": "elaunch", "image": "i", "securityContext": free}]}}
    (container,) = etcd_set(job(template=template))["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {
        "runAsUser": 7,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_policy_for_a_jobs_etcd_is_of_the_pods_that_are_made() -> None:
    where = Path(__file__).parents[3] / "deploy" / "kubernetes" / "job-etcd-policy.yaml"
    policy = yaml.safe_load(where.read_text())["spec"]
    etcd = etcd_set(job())["spec"]["template"]
    (container,) = etcd["spec"]["containers"]
    assert policy["podSelector"]["matchLabels"].items() <= etcd["metadata"]["labels"].items()
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == [p["containerPort"] for p in container["ports"]]
    (workers,) = policy["ingress"][0]["from"][0]["podSelector"]["matchExpressions"]
    assert worker_pod(job(), RUNS, 0, 1, ("a:1",))["metadata"]["labels"][workers["key"]] in workers["values"]


def test_an_etcd_that_is_there_stays_what_it_is() -> None:
    storage = {"size": "1Gi"}
    there = Observed(etcd_set=etcd_set(job(etcd={"managed": {"storage": storage}})))
    assert (
        misfits(job(etcd={"managed": {"storage": {"size": "1Gi"}, "resources": {"limits": {"cpu": 2}}}}), there) == []
    )
    others = ({}, {"managed": {"members": 3, "storage": storage}}, {"external": {"endpoints": ["e:2379"]}})
    for other in others:
        (told,) = misfits(job(etcd=other), there)
        assert "members: 1, with storage" in told, other
    assert misfits(job(etcd=others[1]), Observed()) == []


@pytest.mark.parametrize("name", ["a.b", "1st", "-a", "a-"])
def test_a_name_after_which_no_service_can_be_called_is_refused(name: str) -> None:
    (told,) = defects(replace(job(), name=name))
    assert f"metadata.name is {name}" in told


def _made(**container: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The main container of a pod, and the pod's volumes."""
    template = {"spec": {"containers": [{"name": "elaunch", **container}]}}
    spec = worker_pod(job(template=template), RUNS, 0, 1, ("a:1",))["spec"]
    return spec["containers"][0], spec.get("volumes", [])


def test_an_agent_can_write_that_it_lives_where_its_root_is_read_only() -> None:
    locked = {"readOnlyRootFilesystem": True}
    main, volumes = _made(securityContext=locked, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    assert main["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "elaunch-tmp", "mountPath": "/tmp"},
    ]
    assert volumes == [{"name": "elaunch-tmp", "emptyDir": {}}]
    assert _made()[1] == _made(securityContext={"readOnlyRootFilesystem": False})[1] == []
    own, volumes = _made(securityContext=locked, volumeMounts=[{"name": "mine", "mountPath": "/tmp/"}])
    assert (own["volumeMounts"], volumes) == ([{"name": "mine", "mountPath": "/tmp/"}], [])


def test_an_agent_has_time_to_start_before_it_must_live() -> None:
    assert _made()[0]["startupProbe"] == PROBES["startupProbe"]
    own = {"exec": {"command": ["true"]}}
    assert _made(startupProbe=own)[0]["startupProbe"] == own
    assert "startupProbe" not in _made(livenessProbe=own)[0]  # whoever has another idea of life has one of its start
