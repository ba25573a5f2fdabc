"""A Kubernetes of the tests' own on this machine: a real control plane, and nodes whose pods are processes.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real ones (build.sh); what stands for the
kubelets is node_agent.py. Pods have addresses that this process reaches, and reach the API server.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.installed import search_path
from tests.kubernetes.logs import newest
from tests.kubernetes.pki import write_kubeconfig

Object = dict[str, Any]
_START = 180.0  # seconds; an idle machine needs 10
_namespaces = itertools.count(1)


def wait_until(
    what: str | Callable[[], str], condition: Callable[[], Any], seconds: float = 120.0, pause: float = 0.1
) -> Any:
    """The first true value of ``condition``; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for: {what() if callable(what) else what}")
        time.sleep(pause)


class Refused(Exception):
    """The API server has refused a request; ``told`` is its Status object."""

    def __init__(self, status: int, told: Object) -> None:
        super().__init__(f"{status}: {told.get('message', told)}")
        self.status, self.told = status, told


class Cluster:
    """``count`` nodes ``node1`` and on, up from entering to leaving the context."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self._away: set[str] = set()

    _agent: subprocess.Popen[bytes]
    _server: subprocess.Popen[bytes]

    def __enter__(self) -> Cluster:
        self._plane = ControlPlane()
        self.name, self.home = self._plane.name, self._plane.home
        self.port, self.host = self._plane.port, self._plane.host
        try:
            self._start()
        except BaseException as error:
            said = self.server_logs()
            self.close()
            raise AssertionError(f"no Kubernetes came up: {error!r}\n{said}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all, at once; nothing is left."""
        self._plane.close()

    def server_logs(self) -> str:
        """The end of what each server and the nodes' agent have to say."""
        return self._plane.logs()

    # --- for whoever talks to it ---------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def server_for_pods(self) -> str:
        return f"https://{self.host}:{self.port}"

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = (), namespace: str = "default") -> Path:
        """A file for a user: "admin" may do everything; "system:serviceaccount:NAMESPACE:NAME" has that one's token."""
        path = self.home / f"{user.replace(':', '-').replace('/', '-')}-{namespace}.kubeconfig"
        authority = self._plane.authority
        if user.startswith("system:serviceaccount:"):
            where, name = user.split(":")[2:]
            asked = f"/api/v1/namespaces/{where}/serviceaccounts/{name}/token"
            token = self.request("POST", asked, {"spec": {"expirationSeconds": 86_400}})["status"]["token"]
            return write_kubeconfig(path, self.server, authority.ca, str(token), namespace)
        if not path.exists():
            pair = self._plane.admin if user == "admin" else authority.pair(path.stem, user, groups)
            write_kubeconfig(path, self.server, authority.ca, pair, namespace)
        return path

    def kubectl(
        self, *words: str, input: str | None = None, check: bool = True, user: str = "admin", timeout: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """kubectl's answer; fails with what it said, unless ``check`` is False."""
        line = ["kubectl", f"--kubeconfig={self.kubeconfig(user)}", f"--cache-dir={self.home / 'discovery'}", *words]
        env = {**os.environ, "PATH": search_path(), "HOME": str(self.home)}
        done = subprocess.run(line, input=input, capture_output=True, text=True, env=env, timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        """One request of the administrator's to the API. Raises Refused."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=30)
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            said = answer.read().decode()
        if answer.status >= 300:
            raise Refused(answer.status, _parsed(said))
        return _parsed(said)

    def get(self, path: str) -> Object | None:
        """What is at ``path`` of the API; None where nothing is."""
        try:
            return self.request("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def pod(self, namespace: str, name: str) -> Object | None:
        return self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        query = f"?labelSelector={selector}" if selector else ""
        return list(self.request("GET", f"/api/v1/namespaces/{namespace}/pods{query}")["items"])

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 180.0) -> Any:
        """The first true value of ``condition``; fails with ``what`` and the state of all pods after ``seconds``."""

        def told() -> str:
            return f"{what}\n{self.kubectl('get', 'pods', '-A', '-o', 'wide', check=False).stdout}"

        return wait_until(told, condition, seconds)

    def wait_phase(self, namespace: str, name: str, *phases: str, seconds: float = 180.0) -> Object:
        """Wait until a pod is in one of ``phases``."""

        def there() -> Object | None:
            pod = self.pod(namespace, name)
            return pod if pod and pod["status"].get("phase") in phases else None

        return dict(self.wait(f"pod {name} {' or '.join(phases)}", there, seconds))

    def wait_gone(self, namespace: str, name: str, seconds: float = 180.0) -> None:
        self.wait(f"pod {name} gone", lambda: self.pod(namespace, name) is None, seconds)

    def logs(self, namespace: str, pod: str, container: str = "*", previous: bool = False) -> str:
        """What the last run has printed so far, or the one before; of a pod that is gone too, "" of one unheard of."""
        found = newest(self.home / "logs", namespace, pod, container, previous)
        return found.read_text(errors="replace") if found else ""

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """A fresh one; afterwards no pod of it is left, and no node is away."""
        name = f"{prefix}-{next(_namespaces)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait("the service account", lambda: (self.get(account) or {}).get("secrets"))
        try:
            yield name
        finally:
            for node in sorted(self._away):
                self.recover(node)
            self.request("DELETE", f"/api/v1/namespaces/{name}")
            self.wait(f"no process of {name}", lambda: self._emptied(name))

    def processes(self, namespace: str = "") -> list[psutil.Process]:
        """The processes of all pods, or of those of one namespace."""
        found = []
        for process in psutil.Process(self._agent.pid).children(recursive=True):
            of = _namespace(process.pid)
            if of and namespace in ("", of):
                found.append(process)
        return found

    def _emptied(self, namespace: str) -> bool:
        with contextlib.suppress(Refused):  # what owners make meanwhile goes with the next look
            self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        return not self.pods(namespace) and not self.processes(namespace)

    @contextlib.contextmanager
    def without_server(self) -> Iterator[None]:
        """The API server is killed, and comes back at the end, with all that it knew."""
        self._server.kill()
        self._server.wait(20)
        try:
            yield
        finally:
            self._server = self._plane.start_server()
            self._await_server()

    # --- nodes ---------------------------------------------------------------------------------------------------

    def nodes(self, count: int | None = None) -> list[str]:
        """The names of all nodes, after there are ``count`` (20 at most), and all are ready."""
        if count is not None:
            self._tell(f"nodes {count}")
            self.count = max(self.count, count)
        names = [f"node{number}" for number in range(1, self.count + 1)]
        self._await_ready(names)
        return names

    def crash(self, node: str) -> None:
        """A node loses its power: no heartbeat more, and all its processes are gone when this returns."""
        self._away.add(node)
        self._tell(f"crash {node}")

    def cut(self, node: str) -> None:
        """A node loses its network, and so do its pods; their processes go on."""
        self._away.add(node)
        self._tell(f"cut {node}")

    def recover(self, node: str) -> None:
        """A node that crashed or was cut off comes back; returns when it is ready."""
        self._tell(f"recover {node}")
        self._away.discard(node)
        self._await_ready([node])

    def ready(self, node: str) -> bool:
        """As the control plane sees it."""
        told = self.get(f"/api/v1/nodes/{node}")
        return told is not None and _is_ready(told)

    def _await_ready(self, names: Sequence[str]) -> None:
        def all_ready() -> bool:
            listed = {node["metadata"]["name"]: node for node in self.request("GET", "/api/v1/nodes")["items"]}
            return all(name in listed and _in_service(listed[name]) for name in names)

        self.wait(f"nodes {', '.join(names)} ready", all_ready)

    def _tell(self, line: str) -> None:
        assert self._agent.stdin is not None
        assert self._agent.stdout is not None
        self._agent.stdin.write(line.encode() + b"\n")
        self._agent.stdin.flush()
        answer = self._agent.stdout.readline().decode().strip()
        assert answer == "done", f"{line}: {answer}\n{self.server_logs()}"

    # --- start ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._context = ssl.create_default_context(cafile=str(self._plane.authority.ca))
        self._context.load_cert_chain(self._plane.admin.cert, self._plane.admin.key)
        self._agent = self._plane.start_agent()
        self._plane.start_etcd()
        self._server = self._plane.start_server()
        self._await_server()
        self._plane.start_controllers()
        self.nodes(self.count)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until("the default service account", lambda: (self.get(account) or {}).get("secrets"), _START)

    def _await_server(self) -> None:
        def ready() -> bool:
            assert self._server.poll() is None, "kube-apiserver has ended"
            with contextlib.suppress(OSError, Refused):
                self.request("GET", "/readyz")
                return True
            return False

        wait_until("kube-apiserver to be ready", ready, _START)


def _namespace(pid: int) -> str:
    """Of the pod that a process is of; "" for what is of none, and for what has ended."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        told = dict(line.split(":", 1) for line in status.splitlines())
        if len(told["NSpid"].split()) > 2 and "Z" not in told["State"]:  # this machine's, the agent's, the container's
            return Path(f"/proc/{pid}/root/run/pod/namespace").read_text()
    return ""


def _is_ready(node: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())


def _in_service(node: Object) -> bool:
    taints = [taint["key"] for taint in node["spec"].get("taints") or ()]
    lost = {f"node.kubernetes.io/{reason}" for reason in ("not-ready", "unreachable")}
    return _is_ready(node) and lost.isdisjoint(taints)


def _parsed(said: str) -> Object:
    try:
        told = json.loads(said)
    except json.JSONDecodeError:
        return {"message": said}
    return told if isinstance(told, dict) else {"message": said}
