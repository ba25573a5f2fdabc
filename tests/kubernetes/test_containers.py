"""What a container of the tests' Kubernetes finds: its environment, its volumes, its user, its probes, its network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import Apply
from tests.kubernetes.manifests import config_map, headless_service, pod, python, shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def test_a_container_finds_what_its_spec_says(cluster: Cluster, namespace: str, apply: Apply, tmp_path: Path) -> None:
    source = """
import json, os, pathlib, sys
text = lambda path: pathlib.Path(path).read_text()
told = {
    "arguments": sys.argv[1:],
    "environment": {name: os.environ.get(name) for name in ("NAME", "GREETING", "SHARD", "NODE", "FROM_MAP", "CPUS")},
    "before": text("/shared/before"),
    "labels": text("/info/labels"),
    "config": text("/config/deep/file"),
    "token": len(text("/var/run/secrets/kubernetes.io/serviceaccount/token")) > 100,
    "user": [os.getuid(), os.getgid(), os.getgroups()],
    "host": os.uname().nodename,
    "first": os.getpid(),
}
try:
    pathlib.Path("/etc/written").write_text("")
except OSError as error:
    told["root"] = error.strerror
pathlib.Path("/scratch/own").write_text("")
pathlib.Path("/dev/termination-log").write_text("the last word")
pathlib.Path("/out/told").write_text(json.dumps(told))
"""
    names = {"NAME": "metadata.name", "NODE": "spec.nodeName", "SHARD": "metadata.annotations['elaunch/shard']"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in names.items()]
    env.append({"name": "GREETING", "value": "hello $(NAME), $$(NAME) $(NOBODY)"})
    env.append({"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "file"}}})
    env.append({"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}})
    mounts = {"shared": "/shared", "info": "/info", "config": "/config", "out": "/out", "scratch": "/scratch"}
    tmp_path.chmod(0o777)
    told = pod(
        "looks",
        python(
            source,
            "$(NAME)",
            env=env,
            volumeMounts=[{"name": name, "mountPath": path} for name, path in mounts.items()],
            securityContext={"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
            resources={"limits": {"cpu": "1500m"}},
        ),
        initContainers=[
            shell("id -u >/shared/before", name="before", volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
        ],
        securityContext={"runAsUser": 1234, "runAsGroup": 1235, "fsGroup": 1236, "runAsNonRoot": True},
        volumes=[
            {"name": "shared", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {"medium": "Memory"}},
            {
                "name": "info",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
            {"name": "config", "configMap": {"name": "settings", "items": [{"key": "file", "path": "deep/file"}]}},
            {"name": "out", "hostPath": {"path": str(tmp_path)}},
        ],
    )
    told["metadata"]["annotations"] = {"elaunch/shard": "7"}
    apply(config_map("settings", file="content"), told)
    done = cluster.wait_phase(namespace, "looks", "Succeeded", "Failed")
    assert done["status"]["phase"] == "Succeeded", cluster.logs(namespace, "looks", "main")
    assert json.loads((tmp_path / "told").read_text()) == {
        "arguments": ["looks"],
        "environment": {
            "NAME": "looks",
            "GREETING": "hello looks, $(NAME) $(NOBODY)",
            "SHARD": "7",
            "NODE": done["spec"]["nodeName"],
            "FROM_MAP": "content",
            "CPUS": "2",
        },
        "before": "1234\n",
        "labels": 'app="looks"',
        "config": "content",
        "token": True,
        "user": [1234, 1235, [1236]],
        "host": "looks",
        "first": 1,
        "root": "Read-only file system",
    }
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "the last word"


def test_what_cannot_be_started_says_why(cluster: Cluster, namespace: str, apply: Apply) -> None:
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]
    apply(pod("wrong", {"name": "main", "image": "any", "command": ["no-such-program"]}))
    apply(pod("waits", shell("test $X = here", env=env)))
    wrong = cluster.wait_phase(namespace, "wrong", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (wrong["exitCode"], wrong["reason"]) == (128, "StartError")
    assert "no-such-program" in wrong["message"]

    def waiting() -> Any:
        told = (cluster.pod(namespace, "waits") or {})["status"].get("containerStatuses") or [{"state": {}}]
        return told[0]["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"

    cluster.wait("the pod to wait", waiting)
    apply(config_map("late", x="here"))
    cluster.wait_phase(namespace, "waits", "Succeeded")


def test_a_container_is_ready_when_its_probes_say_so(cluster: Cluster, namespace: str, apply: Apply) -> None:
    """Only then has its service an address, which others find by its name."""
    source = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path("/out/ready").exists() else 503)
        self.end_headers()
print("listening", flush=True)
http.server.HTTPServer(("", 8000), Handler).serve_forever()
"""
    web = python(
        source,
        ports=[{"name": "web", "containerPort": 8000}],
        startupProbe={"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 60},
        readinessProbe={"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1},
        volumeMounts=[{"name": "out", "mountPath": "/out"}],
    )
    opens = shell("sleep 1; touch /out/ready; sleep 600", name="opens", volumeMounts=web["volumeMounts"])
    apply(
        headless_service("web", {"app": "web"}, 8000),
        pod("web", web, opens, volumes=[{"name": "out", "emptyDir": {}}]),
    )
    seen = []

    def ready() -> bool:
        told = cluster.pod(namespace, "web") or {}
        held = {c["type"]: c["status"] for c in told["status"].get("conditions") or ()}
        seen.append(held.get("Ready"))
        return held.get("Ready") == "True"

    cluster.wait("the pod to be ready", ready)
    assert "False" in seen
    apply(pod("asks", shell("until getent hosts web; do sleep 0.1; done")))
    cluster.wait_phase(namespace, "asks", "Succeeded")


def test_a_pod_talks_to_the_api_as_its_service_account(cluster: Cluster, namespace: str, apply: Apply) -> None:
    source = """
import json, os, ssl, urllib.error, urllib.request
where = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=where + "ca.crt")
def ask(path):
    server = "https://kubernetes.default.svc:" + os.environ["KUBERNETES_SERVICE_PORT"]
    url = f"{server}/api/v1/namespaces/{open(where + 'namespace').read()}/{path}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(where + "token").read()})
    try:
        return urllib.request.urlopen(request, context=context, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
print(ask("pods"), ask("secrets"))
"""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    rbac = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    version = "rbac.authorization.k8s.io/v1"
    apply(
        {"apiVersion": version, "kind": "Role", "metadata": {"name": "reads"}, "rules": rules},
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": {"name": "reads"},
            "subjects": [subject],
            "roleRef": rbac,
        },
        pod("asks", python(source)),
    )
    cluster.wait_phase(namespace, "asks", "Succeeded", "Failed")
    assert cluster.logs(namespace, "asks") == "200 403\n"
    denied = cluster.kubectl(
        "get", "secrets", "-n", namespace, user=f"system:serviceaccount:{namespace}:default", check=False
    )
    assert "forbidden" in denied.stderr
