"""The manifests, and the commands that make jobs, against the real API server; what the operator's account may do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.operators import install
from tests.unit.deploy.reading import KUBERNETES, built, read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
OPERATOR = "system:serviceaccount:elaunch-system:elaunch-operator"
CONTROLLER = "system:serviceaccount:elaunch-system:elaunch-controller"
_PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "ElasticJob": "elasticjobs",
}
_CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")


def older(document: dict[str, Any]) -> dict[str, Any]:
    """As this release serves it: disruption budgets came out of beta after it."""
    if document["kind"] == "PodDisruptionBudget":
        return {**document, "apiVersion": "policy/v1beta1"}
    return document


def path_of(document: dict[str, Any]) -> str:
    group = document["apiVersion"]
    base = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    plural = _PLURALS.get(document["kind"], f"{document['kind'].lower()}s")
    if document["kind"] in _CLUSTER_WIDE:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{document['metadata'].get('namespace', 'default')}/{plural}"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    """With what gives nobody a pod: the namespace, the resource, the accounts and their rights."""
    install(cluster)
    return cluster


@pytest.mark.parametrize("overlay", ["base", "overlays/dev", "overlays/production"])
def test_the_server_takes_every_object(installed: Cluster, overlay: str) -> None:
    """All but what it has already, and what goes into a namespace that it has not."""
    refused = []
    for document in map(older, built(overlay)):
        if document["metadata"].get("namespace") == "elaunch-dev":
            document["metadata"]["namespace"] = "elaunch-system"
        try:
            installed.request("POST", f"{path_of(document)}?dryRun=All", document)
        except Refused as error:
            if error.told.get("reason") != "AlreadyExists":
                refused.append(f"{document['kind']} {document['metadata']['name']}: {error}")
    assert refused == []


@pytest.mark.parametrize("name", ["job.yaml", "elasticjob.yaml"])
def test_the_server_takes_the_ready_jobs(installed: Cluster, name: str) -> None:
    for document in read(KUBERNETES / "jobs" / name):
        installed.request("POST", f"{path_of(document)}?dryRun=All", document)


def granted(cluster: Cluster, user: str, *where: str) -> set[tuple[str, str]]:
    """(resource, verb) of what ``user`` may do, beyond what everybody may who has logged in."""
    table = cluster.kubectl("auth", "can-i", "--list", *where, user=user).stdout
    found = set()
    for line in table.splitlines()[1:]:
        cells = re.match(r"(\S*)\s+\[(.*?)\]\s+\[(.*?)\]\s+\[(.*?)\]", line)
        assert cells is not None, line
        resource = cells[1] + (f"/{cells[3]}" if cells[3] else "")
        if resource and "selfsubject" not in resource:
            found |= {(resource, verb) for verb in cells[4].split()}
    return found


def test_the_operator_may_do_what_it_needs_and_nothing_else(installed: Cluster, namespace: str) -> None:
    needed = {
        "services": {"get", "create"},
        "statefulsets.apps": {"get", "list", "watch", "create", "delete"},
        "poddisruptionbudgets.policy": {"get", "create", "patch", "delete"},
        "pods": {"list", "watch", "create", "delete"},
        "events": {"create"},
        "elasticjobs.elaunch.dev": {"get", "list", "watch", "delete"},
        "elasticjobs.elaunch.dev/status": {"update"},
        "elasticjobs.elaunch.dev/finalizers": {"update"},
        "namespaces": {"list", "watch"},
        "nodes": {"get"},
        "customresourcedefinitions.apiextensions.k8s.io": {"list", "watch"},
    }
    expected = {(resource, verb) for resource, verbs in needed.items() for verb in verbs}
    assert granted(installed, OPERATOR, "-n", namespace) == expected
    lease = {("leases.coordination.k8s.io", "create")}
    lease |= {("leases.coordination.k8s.io/elaunch-operator", verb) for verb in ("get", "update")}
    assert granted(installed, OPERATOR, "-n", "elaunch-system") == expected | lease


@pytest.mark.parametrize(
    "question",
    [
        ("get", "secrets"),
        ("create", "pods", "--subresource=exec"),
        ("patch", "pods"),
        ("create", "elasticjobs.elaunch.dev"),
        ("delete", "nodes"),
        ("create", "clusterrolebindings"),
        ("impersonate", "users"),
    ],
)
def test_the_operator_may_not(installed: Cluster, namespace: str, question: tuple[str, ...]) -> None:
    answer = installed.kubectl("auth", "can-i", *question, "-n", namespace, user=OPERATOR, check=False)
    assert (answer.returncode, answer.stdout.strip()) == (1, "no")


def test_the_controller_may_do_nothing(installed: Cluster) -> None:
    assert granted(installed, CONTROLLER, "-n", "elaunch-system") == set()


def test_one_secret_can_be_opened_to_the_operator(installed: Cluster, namespace: str) -> None:
    installed.kubectl("apply", "-n", namespace, "-f", str(KUBERNETES / "secret-reader.yaml"))

    def may_get(name: str) -> str:
        asked = ("auth", "can-i", "get", f"secrets/{name}", "-n", namespace)
        return installed.kubectl(*asked, user=OPERATOR, check=False).stdout.strip()

    installed.wait("the right", lambda: may_get("elaunch-etcd-client") == "yes")
    assert may_get("other") == "no"


# --- elaunch kubernetes -----------------------------------------------------------------------------------------------


class Command:
    """``elaunch kubernetes`` for one namespace. ``lenient`` is a folder with a kubectl that checks no field itself."""

    def __init__(self, cluster: Cluster, namespace: str, lenient: Path) -> None:
        self.cluster, self.namespace, self._lenient = cluster, namespace, lenient

    def __call__(
        self, what: str, *words: str, user: str = "admin", program: bool = True, lenient: bool = True
    ) -> tuple[int, str, str]:
        place = [f"--kubeconfig={self.cluster.kubeconfig(user)}", f"--namespace={self.namespace}"]
        made = ["--image=any", "--cpus=100m", "--memory=64Mi", *words, "train.py"] if program else [*words]
        line = [sys.executable, "-m", "elaunch", "kubernetes", what, *place, *made]
        path = f"{self._lenient}:{os.environ['PATH']}" if lenient else os.environ["PATH"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(self.cluster.home), "PATH": path}
        done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=240, check=False)
        return done.returncode, done.stdout, done.stderr

    def has(self, kind: str) -> list[str]:
        told = self.cluster.kubectl("get", kind, "-n", self.namespace, "-o", "name").stdout
        return [name for name in told.split() if not name.endswith("/kubernetes")]


@pytest.fixture
def command(installed: Cluster, namespace: str, tmp_path: Path) -> Command:
    """This release knows no Indexed Job: with its own kubectl's consent what it does not know is left out."""
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(
        '#!/bin/bash\n[[ " $* " = *" create "* ]] && set -- "$@" --validate=false\n'
        f'exec {shutil.which("kubectl")} "$@"\n'
    )
    kubectl.chmod(0o755)
    return Command(installed, namespace, kubectl.parent)


def test_a_release_that_is_too_old_for_a_field_is_not_asked_to_leave_it_out(command: Command) -> None:
    code, _, said = command("submit", "--kind=job", "--name=a", lenient=False)
    assert (code, said.count("\n"), "podFailurePolicy" in said) == (2, 1, True)
    assert command.has("jobs") == []


def test_a_job_is_checked_made_once_and_deleted(command: Command) -> None:
    assert command("submit", "--kind=job", "--name=a", "--dry-run=server")[:2] == (
        0,
        "job.batch/a (server dry run)\nservice/a (server dry run)\n",
    )
    assert command.has("jobs") + command.has("services") == []
    assert command("submit", "--kind=job", "--name=a")[:2] == (0, "job.batch/a\nservice/a\n")
    code, _, said = command("submit", "--kind=job", "--name=a")
    assert (code, said.count("\n"), "already exists" in said) == (68, 1, True)
    assert command("delete", "a", "--dry-run=server", program=False)[:2] == (0, "job.batch/a\nservice/a\n")
    assert command.has("jobs") == ["job.batch/a"]
    assert command("delete", "a", "--no-wait", program=False)[:2] == (0, "job.batch/a\nservice/a\n")
    assert command("delete", "a", program=False)[0] == 66


def test_what_else_has_the_name_stays(command: Command) -> None:
    command.cluster.kubectl("create", "-n", command.namespace, "service", "clusterip", "a", "--tcp=80")
    assert command("delete", "a", program=False)[0] == 66
    assert command.has("services") == ["service/a"]


def test_a_job_that_is_half_made_is_taken_back(command: Command) -> None:
    command.cluster.kubectl("create", "-n", command.namespace, "service", "clusterip", "a", "--tcp=80")
    assert command("submit", "--kind=job", "--name=a")[0] == 68
    assert command.has("jobs") == []


def test_an_elastic_job_is_made_checked_and_deleted(command: Command) -> None:
    assert command("submit", "--name=e", "--nodes=2")[:2] == (0, "elasticjob.elaunch.dev/e\n")
    told = json.loads(command.cluster.kubectl("get", "ej/e", "-n", command.namespace, "-o", "json").stdout)
    assert (told["spec"]["replicas"], told["spec"]["program"]) == (2, ["train.py"])
    assert command("delete", "e", "--no-wait", program=False)[0] == 0
    code, _, said = command("submit", "--name=f", "--nodes=20000", "--dry-run=server")
    assert (code, "spec.replicas" in said, said.count("\n")) == (2, True, 1)


def test_who_may_not_is_told_so(command: Command) -> None:
    code, _, said = command("submit", "--kind=job", "--name=a", user="nobody")
    assert (code, said.count("\n"), "nobody" in said) == (77, 1, True)


def test_a_cluster_without_jobset_says_what_needs_none(command: Command) -> None:
    code, _, said = command("submit", "--kind=jobset", "--name=a")
    assert (code, "--kind=job" in said) == (66, True)


def test_a_cluster_that_is_not_there_is_out_of_reach(command: Command, tmp_path: Path) -> None:
    away = tmp_path / "config"
    text = command.cluster.kubeconfig().read_text()
    away.write_text(text.replace(f":{command.cluster.port}", ":9"))
    code, _, said = command("submit", "--kind=job", f"--kubeconfig={away}")
    assert (code, said.count("\n")) == (69, 1)


def test_logs_of_all_pods_come_with_their_names_and_follow_new_ones(command: Command) -> None:
    def pod(name: str, text: str) -> dict[str, Any]:
        container = {"name": "elaunch", "image": "any", "command": ["sh", "-c", f"echo {text}; echo more"]}
        labels = {"elaunch.dev/job": "a", "elaunch.dev/role": "worker"}
        spec = {"restartPolicy": "Never", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}

    cluster, place = command.cluster, f"/api/v1/namespaces/{command.namespace}/pods"
    assert command("logs", "a", program=False)[0] == 66
    for name in ("p0", "p1"):
        cluster.request("POST", place, pod(name, f"of-{name}"))
        cluster.wait_phase(command.namespace, name, "Succeeded")
    code, told, _ = command("logs", "a", program=False)
    assert code == 0
    assert sorted(told.splitlines()) == ["[p0] more", "[p0] of-p0", "[p1] more", "[p1] of-p1"]
    line = [sys.executable, "-m", "elaunch", "kubernetes", "logs", "a", "-f", f"--namespace={command.namespace}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(cluster.home)}
    with subprocess.Popen(
        [*line, f"--kubeconfig={cluster.kubeconfig()}"], stdout=subprocess.PIPE, text=True, env=env
    ) as following:
        assert following.stdout is not None
        first = [following.stdout.readline() for _ in range(4)]
        cluster.request("POST", place, pod("p2", "of-p2"))
        assert [following.stdout.readline() for _ in range(2)] == ["[p2] of-p2\n", "[p2] more\n"]
        assert len(first) == 4
        assert following.wait(120) == 0  # by itself, some time after the last pod's end


# --- what the base runs -----------------------------------------------------------------------------------------------


def in_one_namespace(namespace: str, *names: str) -> list[dict[str, Any]]:
    """What the overlay for one namespace has of these names, without volumes that have to be claimed."""
    found = []
    for document in map(older, built("overlays/dev")):
        if document["kind"] in _CLUSTER_WIDE or not document["metadata"]["name"].startswith(names):
            continue
        made = json.loads(json.dumps(document).replace("elaunch-dev", namespace))
        assert made["metadata"]["namespace"] == namespace
        if made["kind"] == "StatefulSet":
            del made["spec"]["volumeClaimTemplates"]
            made["spec"]["template"]["spec"].setdefault("volumes", []).append({"name": "data", "emptyDir": {}})
        found.append(made)
    return found


def test_etcd_and_controller_come_up_as_nobody_and_are_ready(cluster: Cluster, namespace: str) -> None:
    items = in_one_namespace(namespace, "elaunch-etcd", "elaunch-controller")
    cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def ready() -> bool:
        pods = cluster.pods(namespace)
        conditions = [c for pod in pods for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"]
        return len(pods) == 2 and [c["status"] for c in conditions] == ["True", "True"]

    def said() -> str:
        return "\n".join(cluster.logs(namespace, pod["metadata"]["name"]) for pod in cluster.pods(namespace))

    try:
        cluster.wait("both to be ready", ready, 180)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{said()[-4000:]}") from None
    assert {process.uids().real for process in cluster.processes(namespace)} == {10001}


def test_an_operator_of_one_namespace_brings_a_submitted_job_to_its_end(command: Command) -> None:
    """With the rights of its manifest only, and pods that may do little; those of the job as well."""
    cluster, namespace = command.cluster, command.namespace
    items = in_one_namespace(namespace, "elaunch-operator")
    cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    program = str(ROOT / "tests" / "programs" / "ledgering.py")
    wishes = [
        "--name=e",
        "--image=any",
        "--nodes=2",
        "--cpus=200m",
        "--memory=256Mi",
        "--env=OUT=/tmp",
        "--env=APART=1",
        "--env=STEPS=20",
    ]
    done = command("submit", *wishes, "--options=--start=exec", program, program=False)
    assert done[:2] == (0, "elasticjob.elaunch.dev/e\n"), done[2]
    told = cluster.kubectl(
        *("wait", "-n", namespace, "--for=condition=Succeeded", "ej/e", "--timeout=300s"), check=False, timeout=320
    )
    said = "\n".join(cluster.logs(namespace, pod["metadata"]["name"]) for pod in cluster.pods(namespace))
    assert told.returncode == 0, f"{told.stderr}\n{said[-6000:]}"
    refused = [line for line in said.splitlines() if "forbidden" in line.lower() and "nodes" not in line]
    assert not refused, "\n".join(line[:600] for line in refused)

    def last_words() -> bool:
        code, told_by_logs, _ = command("logs", "e", program=False)
        return code == 0 and "job_succeeded" in told_by_logs

    cluster.wait("its last words in its logs", last_words)
    assert command("delete", "e", program=False)[:2] == (0, "elasticjob.elaunch.dev/e\n")
    cluster.wait("no pod of it", lambda: not cluster.pods(namespace, "elaunch.dev/job=e"))
