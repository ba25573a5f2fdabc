"""The operator as tests start, kill and ask it, with no more rights than its own role gives; and ElasticJobs for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.control_plane import prefer

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "programs" / "ledgering.py"
HOME = "elaunch-system"
NEEDED = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
)
API = "/apis/elaunch.dev/v1alpha1"
Object = dict[str, Any]


def install(cluster: Cluster) -> None:
    """The resource's definition and the operator's role, as ``deploy/kubernetes/base`` has them."""
    rendered = cluster.kubectl("kustomize", str(ROOT / "deploy" / "kubernetes" / "base")).stdout
    objects = [found for found in yaml.safe_load_all(rendered) if found["kind"] in NEEDED]
    objects.sort(key=lambda found: NEEDED.index(found["kind"]))
    cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster.wait("the definition", lambda: cluster.kubectl("get", "ej", check=False).returncode == 0)
    account = f"/api/v1/namespaces/{HOME}/serviceaccounts/elaunch-operator"
    cluster.wait("the operator's account", lambda: cluster.get(account))


class Operator:
    """One operator of the whole cluster; ``name`` is the identity with which it holds the Lease."""

    def __init__(self, cluster: Cluster, name: str = "operator-0") -> None:
        self._cluster = cluster
        self.name = name
        self.log = cluster.home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    def start(self) -> None:
        config = self._cluster.kubeconfig(f"system:serviceaccount:{HOME}:elaunch-operator")
        words = [sys.executable, "-m", "elaunch", "kubernetes", "operator", f"--kubeconfig={config}"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ELAUNCH_POD_NAME": self.name}
        self._began = len(self.said()) if self.log.exists() else 0
        with self.log.open("ab") as log:
            words.append(f"--lease-namespace={HOME}")
            self._process = subprocess.Popen(
                words, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        prefer(self._process)  # it begins often, by seconds of imports

    def kill(self, signum: signal.Signals = signal.SIGKILL) -> int:
        """End it; its exit code, as subprocess tells it."""
        assert self._process is not None
        self._process.send_signal(signum)
        code = self._process.wait(120)
        self._process = None
        return code

    def restart(self) -> None:
        """As after a crash."""
        self.kill()
        self.start()

    @property
    def works(self) -> bool:
        """Whether the one that was started last holds the Lease."""
        return "operator_works" in self.said()[self._began :]

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def said(self) -> str:
        return self.log.read_text(errors="replace")


class Job:
    """One ElasticJob ``name`` whose ranks share the folder ``out``."""

    def __init__(self, cluster: Cluster, namespace: str, out: Path, name: str = "job") -> None:
        self.cluster, self.namespace, self.out, self.name = cluster, namespace, out, name
        out.mkdir(exist_ok=True)
        self.path = f"{API}/namespaces/{namespace}/elasticjobs/{name}"

    def manifest(self, **spec: Any) -> Object:
        mounts = [{"name": "out", "mountPath": "/out"}]
        container = {"name": "main", "image": "registry.example/any:1", "volumeMounts": mounts}
        container["env"] = [{"name": "OUT", "value": "/out"}]
        template = {"containers": [container], "volumes": [{"name": "out", "hostPath": {"path": str(self.out)}}]}
        usual: Object = {
            "program": [str(PROGRAM), "record"],
            "options": ["--start=exec", "--max-restarts=3"],
            "terminationGracePeriodSeconds": 20,
            "nodeLostSeconds": 1,
            "template": {"spec": template},
        }
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "elaunch.dev/v1alpha1", "kind": "ElasticJob", "metadata": metadata, "spec": usual | spec}

    def create(self, **spec: Any) -> None:
        self.cluster.request("POST", self.path.rpartition("/")[0], self.manifest(**spec))

    def patch(self, **spec: Any) -> None:
        self.cluster.request("PATCH", self.path, {"spec": spec}, "application/merge-patch+json")

    @property
    def status(self) -> Object:
        return (self.cluster.get(self.path) or {}).get("status") or {}

    def condition(self, kind: str) -> Object:
        found = self.status.get("conditions") or []
        return next((condition for condition in found if condition["type"] == kind), {})

    def pods(self, alive: bool = True) -> list[Object]:
        """Those that work, by slot; or all."""
        found = self.cluster.pods(self.namespace, f"elaunch.dev/job={self.name},elaunch.dev/role=worker")
        if alive:
            found = [p for p in found if "deletionTimestamp" not in p["metadata"] and _works(p)]
        return sorted(found, key=lambda p: int(p["metadata"]["labels"]["elaunch.dev/slot"]))

    def names(self) -> list[str]:
        return [str(pod["metadata"]["name"]) for pod in self.pods()]

    def starts(self) -> list[Object]:
        """Those of all ranks so far."""
        path = self.out / "starts.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [told for line in lines if line.endswith("}") and (told := json.loads(line))["event"] == "start"]

    def events(self) -> list[Object]:
        selector = f"involvedObject.name={self.name},involvedObject.kind=ElasticJob"
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector={selector}"
        return list(self.cluster.request("GET", path)["items"])

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 300.0) -> Any:
        """Fails with the status as it is after ``seconds``."""
        try:
            return self.cluster.wait(what, condition, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps(self.status, indent=1)}") from None

    def wait_running(self, nodes: int, after: int = 0) -> Object:
        """The status once a generation above ``after`` runs on so many nodes, and every pod is ready."""

        def there() -> Object | None:
            told = self.status
            ready = self.condition("Ready")
            fits = told.get("phase") == "Running" and told.get("generation", 0) > after and told.get("ready") == nodes
            return told if fits and f"on {nodes} of {nodes} nodes" in ready.get("message", "") else None

        found: Object = self.wait(f"{nodes} nodes of {self.name} running", there)
        return found


def _works(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Pending", "Running")


@contextmanager
def serving(cluster: Cluster) -> Iterator[Operator]:
    """An operator of ``cluster``, the definitions installed."""
    install(cluster)
    operator = Operator(cluster)
    operator.start()
    try:
        yield operator
    finally:
        operator.close()
