"""The manifests: fields that the newest Kubernetes knows, pods that may do little, accounts that may do less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from elaunch.cli.main import main
from tests.unit.deploy.reading import (
    KUBERNETES,
    OVERLAYS,
    Document,
    built,
    check,
    named,
    no_kustomize,
    of_kind,
    pod_spec,
    read,
)

FILES = sorted(
    path for path in KUBERNETES.rglob("*.yaml") if not path.is_symlink() and path.parent.name != "production"
)
PODS = ("Deployment", "StatefulSet", "Job", "JobSet", "ElasticJob")
RENDERED = {
    "job.yaml": ["--kind=job", "--nodes=3", "--spares=1", "--min-nodes=2"],
    "jobset.yaml": ["--kind=jobset", "--nodes=3", "--min-nodes=2"],
    "elasticjob.yaml": ["--nodes=3", "--spares=1", "--min-nodes=2"],
}


def workloads() -> list[Any]:
    overlays = () if no_kustomize() else OVERLAYS
    found = [(overlay, d) for overlay in overlays for d in of_kind(built(overlay), *PODS)]
    found += [("jobs", d) for path in (KUBERNETES / "jobs").glob("*.yaml") for d in of_kind(read(path), *PODS)]
    return [pytest.param(d, id=f"{where}-{d['kind']}-{d['metadata']['name']}") for where, d in found]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(KUBERNETES)))
def test_the_newest_kubernetes_knows_every_field(path: Path) -> None:
    for document in read(path):
        check(document)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_kustomize_builds_is_known_too(overlay: str) -> None:
    for document in built(overlay):
        check(document)


@pytest.mark.parametrize("name", RENDERED)
def test_the_ready_jobs_are_what_is_rendered(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--name=train", "--image=elaunch/agent:0.1.0", "--options=--max-restarts=3"]
    assert main(["kubernetes", "render", *more, *RENDERED[name], "/opt/elaunch/examples/train_ddp.py"]) == 0
    assert capsys.readouterr().out == (KUBERNETES / "jobs" / name).read_text()


@pytest.mark.parametrize("document", workloads())
def test_a_pod_may_do_little(document: Document) -> None:
    spec = pod_spec(document)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec.get("automountServiceAccountToken") is (document["metadata"]["name"] == "elaunch-operator")
    assert not spec.get("hostNetwork")
    assert not spec.get("hostPID")
    assert not any("hostPath" in volume for volume in spec.get("volumes", ()))
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for bound in ("requests", "limits"):
            assert {"cpu", "memory"} <= container["resources"][bound].keys()


@pytest.mark.parametrize("document", workloads())
def test_a_pod_is_probed(document: Document) -> None:
    for container in pod_spec(document)["containers"]:
        if document["kind"] != "ElasticJob":  # its operator puts them in
            assert "livenessProbe" in container
            assert "readinessProbe" in container or document["metadata"]["name"] == "elaunch-operator"
        for variable in container.get("env", ()):
            assert "value" in variable or "valueFrom" in variable


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_account_may_do_everything(overlay: str) -> None:
    for role in of_kind(built(overlay), "Role", "ClusterRole"):
        for rule in role["rules"]:
            for field in ("verbs", "resources", "apiGroups"):
                assert "*" not in rule[field], role["metadata"]["name"]
            assert not {"secrets", "pods/exec", "roles", "rolebindings", "serviceaccounts"} & set(rule["resources"])
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_the_operator_is_given_anything(overlay: str) -> None:
    documents = built(overlay)
    roles = {(r["kind"], r["metadata"]["name"]) for r in of_kind(documents, "Role", "ClusterRole")}
    for binding in of_kind(documents, "RoleBinding", "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert subject["name"] == "elaunch-operator"
        assert subject["namespace"] == named(documents, "ServiceAccount", "elaunch-operator")["metadata"]["namespace"]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles


def test_in_one_namespace_the_operator_has_the_same_rules_and_no_others() -> None:
    whole = named(built("base"), "ClusterRole", "elaunch-operator")["rules"]
    dev = built("overlays/dev")
    assert named(dev, "Role", "elaunch-operator")["rules"] == whole
    assert of_kind(dev, "ClusterRoleBinding") == []
    (container,) = pod_spec(named(dev, "Deployment", "elaunch-operator"))["containers"]
    assert "--namespace=$(ELAUNCH_POD_NAMESPACE)" in container["args"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_meet_the_pods_that_they_are_about(overlay: str) -> None:
    documents = built(overlay)
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in of_kind(documents, "Deployment", "StatefulSet")]
    for d in of_kind(documents, "Deployment", "StatefulSet", "PodDisruptionBudget"):
        assert any(d["spec"]["selector"]["matchLabels"].items() <= pod.items() for pod in pods), d["metadata"]["name"]
    for d in of_kind(documents, "Service"):
        assert any(d["spec"]["selector"].items() <= pod.items() for pod in pods)
    for d in of_kind(documents, "NetworkPolicy"):
        wanted = d["spec"]["podSelector"].get("matchLabels", {})
        assert any(wanted.items() <= pod.items() for pod in pods), d["metadata"]["name"]
    for d in of_kind(documents, "Deployment", "StatefulSet"):
        for container in pod_spec(d)["containers"]:
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                asked = container.get(probe, {})
                port = (asked.get("httpGet") or asked.get("tcpSocket") or {}).get("port")
                assert port is None or port in ports


def test_production_has_three_members_two_controllers_and_tls() -> None:
    documents = built("overlays/production")
    etcd = named(documents, "StatefulSet", "elaunch-etcd")
    assert etcd["spec"]["replicas"] == 3
    env = {one["name"]: one.get("value", "") for one in pod_spec(etcd)["containers"][0]["env"]}
    assert env["ETCD_CLIENT_CERT_AUTH"] == env["ETCD_PEER_CLIENT_CERT_AUTH"] == "true"
    assert len(env["ETCD_INITIAL_CLUSTER"].split(",")) == 3
    assert not [name for name, value in env.items() if value.startswith("http:") and name != "ETCD_LISTEN_METRICS_URLS"]
    assert " " not in env["ETCD_INITIAL_CLUSTER"]
    controller = named(documents, "Deployment", "elaunch-controller")
    assert controller["spec"]["replicas"] == 2
    (container,) = pod_spec(controller)["containers"]
    assert any("protocol=https" in argument for argument in container["args"])
    assert not any(" " in argument for argument in container["args"])
    assert "ELAUNCH_TLS_CA" in {one["name"] for one in container["env"]}


def test_a_misspelt_field_would_be_found() -> None:
    (policy, *_) = read(KUBERNETES / "base" / "network-policy.yaml")
    policy["spec"]["podSelectors"] = {}
    with pytest.raises(jsonschema.ValidationError, match="podSelectors"):
        check(policy)
