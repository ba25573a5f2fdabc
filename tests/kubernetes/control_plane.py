"""The processes of a cluster: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and the nodes' agent.

Each dies with the process of the tests, however that ends, and the network with the agent; the folder that a killed run
leaves is taken away by the next.
"""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import psutil

from elaunch.rendezvous.binary import find_etcd
from tests.etcd.servers import free_port
from tests.kubernetes.installed import ROOT, binary, search_path
from tests.kubernetes.pki import Authority, Pair, write_kubeconfig

PREFIX = "elaunch-kubernetes-"
LOST = 8  # seconds without a heartbeat after which a node counts as lost
_PREFERENCE = "-10"  # a nice level
_names = itertools.count()
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

# Namespaces for the agent: one of network with the bridge, joined to this machine's by a link that goes with it; and
# of mounts, with what its containers write. Connections that are left over do not keep the network for long.
_AGENT = """
set -e
mount --make-rprivate /
mkdir -p /run/netns
mount -t tmpfs netns /run/netns
mkdir "$HOME_OF_CLUSTER/layers"
mount -t tmpfs layers "$HOME_OF_CLUSTER/layers"
ip netns add nodes
ip link add "$LINK" type veth peer name uplink netns nodes
ip addr add "$NETWORK.254/24" dev "$LINK"
ip link set "$LINK" up
ip -n nodes -batch - <<END
link set lo up
link add pods type bridge
link set uplink master pods up
addr add $NETWORK.253/24 dev pods
link set pods up
END
for number in $(seq 20); do echo "addr add $NETWORK.$number/24 dev pods"; done | ip -n nodes -batch -
ip netns exec nodes sh -c 'cd /proc/sys/net/ipv4; echo 1 >tcp_orphan_retries; echo 2 >tcp_fin_timeout'
exec nsenter --net=/run/netns/nodes "$PYTHON" -m tests.kubernetes.node_agent "$1"
"""


class ControlPlane:
    """``network`` is the first three numbers of all addresses; this machine has 254, and nodes have those from 1 on."""

    def __init__(self) -> None:
        clear_what_killed_runs_left()
        self.name = f"ek{os.getpid() % 1_000_000}{chr(97 + next(_names) % 26)}"  # of the link, too
        self.home = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/var/tmp"))  # a pod may have a volume on /tmp
        self.home.chmod(0o755)
        (self.home / "owner").write_text(f"{os.getpid()} {self.name}")
        self.network, self._network_lock = _free_network()
        self.port = free_port()
        self.authority = Authority(self.home / "pki")
        self.admin = self.authority.pair("admin", "admin", ["system:masters"])
        self._tokens = self.authority.signing_key("tokens")
        self._etcd = f"http://127.0.0.1:{free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def host(self) -> str:
        """This machine's address for pods."""
        return f"{self.network}.254"

    def start_etcd(self) -> None:
        """The API server waits for it."""
        url, peer = self._etcd, "unix://peer:1"
        self._run(
            [
                *(str(find_etcd().path), "--name=tests", f"--data-dir={self.home / 'etcd'}"),
                *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}"),
                *(f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=tests={peer}"),
                *("--heartbeat-interval=20", "--election-timeout=200"),
            ],
            "etcd",
        )

    def start_server(self) -> subprocess.Popen[bytes]:
        """The API server, which listens on all addresses; the same one when called again."""
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        names += ["kubernetes.default.svc.cluster.local", "127.0.0.1", self.host]
        pair = self.authority.pair("server", "kube-apiserver", (), names)
        return self._daemon(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.host}",
            f"--secure-port={self.port}",
            "--insecure-port=0",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pair.cert}",
            f"--tls-private-key-file={pair.key}",
            f"--client-ca-file={self.authority.ca}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self._tokens}",
            f"--service-account-signing-key-file={self._tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--default-not-ready-toleration-seconds=1",
            "--default-unreachable-toleration-seconds=1",
            "--feature-gates=TTLAfterFinished=true",
        )

    def start_controllers(self) -> None:
        """The controller manager, which misses a node after LOST seconds, and the scheduler."""
        common = ["--leader-elect=false", "--port=0", "--bind-address=127.0.0.1", f"--cert-dir={self.home / 'run'}"]
        common += ["--kube-api-qps=200", "--kube-api-burst=400"]
        self._daemon(
            "kube-controller-manager",
            *common,
            f"--secure-port={free_port()}",
            f"--kubeconfig={self._kubeconfig('kube-controller-manager')}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self._tokens}",
            f"--root-ca-file={self.authority.ca}",
            f"--node-monitor-grace-period={LOST}s",
            "--node-monitor-period=1s",
            "--node-eviction-rate=10",  # else one node in ten seconds, and none where most are lost
            "--secondary-node-eviction-rate=10",
            "--large-cluster-size-threshold=0",
            "--feature-gates=TTLAfterFinished=true",
            "--controllers=*,-cloud-node-lifecycle,-route,-service,-ttl",
        )
        port, kubeconfig = free_port(), self._kubeconfig("kube-scheduler")
        self._daemon("kube-scheduler", *common, f"--secure-port={port}", f"--kubeconfig={kubeconfig}")

    def start_agent(self) -> subprocess.Popen[bytes]:
        """It makes the network, and waits for commands on its standard input."""
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _AGENT, "agent"]
        spec = {
            "home": str(self.home),
            "server": f"https://{self.host}:{self.port}",
            "network": self.network,
            "port": self.port,
            "programs": self._image_programs(),
            "ca": str(self.authority.ca),
            "cert": str(self.admin.cert),
            "key": str(self.admin.key),
        }
        (self.home / "agent.json").write_text(json.dumps(spec))
        env = {"LINK": self.name, "NETWORK": self.network, "HOME_OF_CLUSTER": str(self.home), "PYTHON": sys.executable}
        words = [*own, str(self.home / "agent.json")]
        return self._run(words, "node-agent", piped=True, PYTHONPATH=str(ROOT), **env)

    def logs(self) -> str:
        """The end of what each process has to say."""
        return "\n".join(f"--- {p.name}\n{p.read_text(errors='replace')[-3000:]}" for p in self.home.glob("*.log"))

    def close(self) -> None:
        """End all, at once."""
        for process in reversed(self._processes):
            process.kill()
            process.communicate(timeout=20)  # which closes its pipes too
        _remove_link(self.name)
        self._network_lock.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _image_programs(self) -> dict[str, str]:
        """What is on the PATH of all containers, which can compile nothing for good, as in a real one."""
        compileall.compile_dir(ROOT / "elaunch", quiet=2)
        image = self.home / "image"
        image.mkdir()
        shim = image / "elaunch"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m elaunch "$@"\n')
        shim.chmod(0o755)
        etcd = str(find_etcd().path)
        return {"elaunch": str(shim), "python": sys.executable, "python3": sys.executable, "etcd": etcd}

    def _kubeconfig(self, component: str) -> Path:
        pair: Pair = self.authority.pair(component, f"system:{component}")
        path = self.home / f"{component}.kubeconfig"
        return write_kubeconfig(path, f"https://127.0.0.1:{self.port}", self.authority.ca, pair)

    def _daemon(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        return self._run([str(binary(program)), *words], program)

    def _run(self, words: list[str], log: str, piped: bool = False, **env: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{log}.log").open("ab") as file:
            process = subprocess.Popen(
                words,
                env={**os.environ, "PATH": search_path(), **env},
                cwd=self.home,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        self._processes.append(process)
        prefer(process)
        return process


def prefer(process: subprocess.Popen[bytes]) -> None:
    """A session's first process gets the CPU before others do: else heartbeats are late where the machine is loaded.

    Its descendants with it; what runs in pods is in sessions of its own, and has no part in it.
    """
    with contextlib.suppress(OSError):  # a system may group processes otherwise, and this one may have ended
        Path(f"/proc/{process.pid}/autogroup").write_text(_PREFERENCE)


def _free_network() -> tuple[str, IO[bytes]]:
    """The first three numbers of addresses that nobody on this machine has, and the lock that keeps others away."""
    locks = Path(tempfile.gettempdir()) / f"elaunch-test-ports-{os.getuid()}"
    locks.mkdir(exist_ok=True)
    known = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True, timeout=10).stdout
    for number in range(256):
        lock = (locks / f"kubernetes-{number}").open("wb")
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if f" 198.18.{number}." not in known:
                return f"198.18.{number}", lock
        lock.close()
    raise AssertionError("no network is free for a Kubernetes")


def _remove_link(name: str) -> None:
    """It goes with the agent's namespaces; now, where connections that end there would keep them a while longer."""
    subprocess.run(["ip", "link", "del", name], check=False, capture_output=True, timeout=10)


def clear_what_killed_runs_left() -> None:
    """Their processes and networks died with them; their folders did not."""
    for owner in Path("/var/tmp").glob(f"{PREFIX}*/owner"):
        with contextlib.suppress(FileNotFoundError):  # another run is at it as well
            pid, _, link = owner.read_text().partition(" ")
            if pid.isdigit() and link.startswith("ek") and not psutil.pid_exists(int(pid)):
                _remove_link(link)
                shutil.rmtree(owner.parent, ignore_errors=True)
