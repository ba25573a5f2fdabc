"""What all nodes of an agent share: the API, the network that their pods are in, and what an image would hold."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Api

ROOT = Path(__file__).resolve().parents[2]
BRIDGE = "pods"
HOST, FIRST_POD, LAST_POD = 254, 30, 250  # the last number of addresses; nodes have those from 1 on
KUBELET_PORT = 10250
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Network:
    """Of one pod: the name of its network namespace, and its address."""

    name: str
    link: str
    address: str


class Machine:
    """``network`` is the first three numbers of all addresses; ``home`` is the cluster's folder."""

    def __init__(self, api: Api, home: Path, network: str, server_port: int, programs: Mapping[str, str]) -> None:
        self.api, self.home, self.network, self._server_port = api, home, network, server_port
        self.endpoints: dict[str, Mapping[str, Any]] = {}
        self._free = deque(range(FIRST_POD, LAST_POD + 1))
        self._programs = dict(programs)

    @property
    def server(self) -> str:
        """The API server's address, for pods."""
        return f"{self.network}.{HOST}"

    @property
    def image_environment(self) -> dict[str, str]:
        """What the image of all containers sets, and what Kubernetes adds for each."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{_PATH}",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "KUBERNETES_SERVICE_HOST": self.server,
            "KUBERNETES_SERVICE_PORT": str(self._server_port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(self._server_port),
        }

    @property
    def image_files(self) -> dict[str, str]:
        """In the root of every container. There is no name service but the hosts file."""
        return {"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n", "/etc/resolv.conf": ""}

    @property
    def image_links(self) -> dict[str, str]:
        programs = {f"/usr/local/bin/{name}": path for name, path in self._programs.items()}
        return {**programs, "/etc/hosts": "/run/pod/hosts"}

    @property
    def image_folders(self) -> list[str]:
        """What has to be seen in containers wherever it lies, and be open to all users."""
        interpreter = Path(os.path.realpath(sys.executable)).parents[1]
        wanted = {ROOT, Path(sys.prefix), Path(sys.base_prefix), interpreter, self.home / "image"}
        return sorted(str(folder) for folder in wanted if not folder.is_relative_to("/usr"))

    def note(self, text: str, error: BaseException | None = None) -> None:
        """For whoever reads the agent's log."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
        if error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)

    async def connect(self) -> Network:
        """A network namespace with an address on the bridge."""
        number, host = next(_numbers), self._free.popleft()
        made = Network(f"pod{number}", f"v{number}", f"{self.network}.{host}")
        await ip(
            f"netns add {made.name}",
            f"link add {made.link} type veth peer name eth0 netns {made.name}",
            f"link set {made.link} master {BRIDGE} up",
        )
        inside = ("link set lo up", f"addr add {made.address}/24 dev eth0", "link set eth0 up")
        await ip(*inside, namespace=made.name)
        return made

    async def disconnect(self, network: Network) -> None:
        with contextlib.suppress(OSError):  # a namespace takes its links along
            await ip(f"netns del {network.name}")
        self._free.append(int(network.address.rpartition(".")[2]))


async def ip(*commands: str, namespace: str | None = None) -> None:
    """Raises OSError."""
    within = ["-n", namespace] if namespace else []
    done = await asyncio.create_subprocess_exec(
        "ip",
        *within,
        "-batch",
        "-",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(done.communicate("\n".join(commands).encode()), 20)
    if done.returncode:
        raise OSError(f"ip {commands}: {out.decode().strip()}")
