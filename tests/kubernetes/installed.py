"""Whether this machine has what a Kubernetes of the tests is made of, and where."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "1.20.2"
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMMANDS = ("kubectl", "ip", "nsenter", "unshare", "mount")
MAY_BUILD = "ELAUNCH_TESTS_MAY_BUILD"  # set by tools/run-tests.sh
_FULL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROBE = """
mount -t tmpfs probe /mnt && mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay probe -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
"""


def binary(server: str) -> Path:
    """Where build.sh puts it."""
    cache = os.environ.get("ELAUNCH_TEST_CACHE") or Path.home() / ".cache" / "elaunch-tests"
    return Path(cache) / f"kubernetes-{VERSION}" / "bin" / server


def build() -> None:
    """Build what is missing, where `make test` has started us; in minutes, telling of them."""
    if os.geteuid() == 0 and os.environ.get(MAY_BUILD) and _unbuilt():
        subprocess.run([str(ROOT / "tests" / "kubernetes" / "build.sh")], check=False)


@functools.cache
def missing() -> str:
    """Why there can be no Kubernetes on this machine; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if absent := [command for command in COMMANDS if shutil.which(command, path=search_path()) is None]:
        return f"not installed: {', '.join(absent)} (tools/system-packages.sh)"
    if absent := _unbuilt():
        told = binary(absent[0]).parents[1] / "why-not"
        why = told.read_text().strip() if told.exists() else "tests/kubernetes/build.sh builds them"
        return f"no {', '.join(absent)} {VERSION}: {why}"
    probe = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--net", "--fork", "--mount-proc", "sh", "-ec", _PROBE]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=20, check=False)
    return f"this machine lets us make no containers: {tried.stderr.strip()}" if tried.returncode else ""


def search_path() -> str:
    """For commands that may lie where only the administrator's shell looks."""
    return f"{os.environ.get('PATH', '')}:{_FULL_PATH}"


def _unbuilt() -> list[str]:
    return [server for server in SERVERS if not os.access(binary(server), os.X_OK)]
