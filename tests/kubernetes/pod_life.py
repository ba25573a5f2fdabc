"""The life of a pod on its node: network and volumes, init containers, containers, status, deletion."""

from __future__ import annotations

import asyncio
import contextlib
import math
import shutil
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kubernetes.api import MERGE, ApiError
from tests.kubernetes.container_life import ContainerLife
from tests.kubernetes.containers import Run
from tests.kubernetes.environment import Missing, Place, command, environment
from tests.kubernetes.logs import OVER
from tests.kubernetes.machine import Network, ip
from tests.kubernetes.names import host_name, hosts_file
from tests.kubernetes.status import pod_status
from tests.kubernetes.volumes import Volumes, read_data, replace

if TYPE_CHECKING:
    from tests.kubernetes.node import Node

Object = Mapping[str, Any]


class PodLife:
    """One pod of ``node``, from its binding to its removal."""

    def __init__(self, node: Node, pod: Object) -> None:
        self.node, self.pod = node, pod
        meta, spec = pod["metadata"], pod["spec"]
        self.policy = str(spec.get("restartPolicy", "Always"))
        self.name, self.namespace, self.uid = str(meta["name"]), str(meta["namespace"]), str(meta["uid"])
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.logs = node.machine.home / "logs" / f"{self.namespace}_{self.name}_{self.uid}"
        self._folder = node.machine.home / "pods" / self.uid
        before = "Never" if self.policy == "Never" else "OnFailure"
        self.inits = [ContainerLife(self, container, before) for container in spec.get("initContainers") or ()]
        self.containers = [ContainerLife(self, container, self.policy) for container in spec["containers"]]
        self.grace = float(spec.get("terminationGracePeriodSeconds", 30))
        self.deadline = math.inf
        self.stopping = asyncio.Event()
        self.over = False  # all containers have ended for good
        self._changed = asyncio.Event()
        self._network: Network | None = None
        self.address = ""
        self._volumes: Volumes | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._living = self.background(self._live())
        self._telling = self.background(self._tell_changes())
        self._finishing: asyncio.Task[None] | None = None

    # --- what the node's agent says ------------------------------------------------------------------------------

    def update(self, pod: Object) -> None:
        """The pod's object has changed."""
        self.pod = pod
        if self._volumes is not None:
            self._volumes.refresh(pod)
        if pod["metadata"].get("deletionTimestamp"):
            self.finish(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))

    def finish(self, grace: float) -> None:
        """End with that grace, and have the object removed; a later call can only shorten it."""
        self.grace = grace if self._finishing is None else min(grace, self.grace)
        if self.node.up.is_set():
            self.deadline = min(self.deadline, time.monotonic() + grace)
        if self._finishing is None:
            self._finishing = self.background(self._finish())

    async def kill(self) -> None:
        """The node loses its power."""
        await asyncio.gather(*(container.kill() for container in (*self.inits, *self.containers)))

    async def plug(self, state: str) -> None:
        """Its link is ``up`` or ``down``."""
        if self._network is not None:
            await ip(f"link set {self._network.link} {state}")

    def write_hosts(self) -> None:
        if self._network is None:
            return
        known = self.node.machine.endpoints.values()
        text = hosts_file(self.pod, self.address, known, self.node.machine.server).encode()
        target = self._folder / "names" / "hosts"
        if not target.exists() or target.read_bytes() != text:
            replace(target, text)

    # --- what its containers need --------------------------------------------------------------------------------

    def changed(self) -> None:
        self._changed.set()

    async def wait_stopping(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def termination_log(self, container: str) -> Path:
        return self._folder / f"{container}.termination"

    async def prepare(self, container: Object, restarts: int) -> Run:
        """What is run of a container, with what its environment refers to as that is now. Raises Missing."""
        assert self._network is not None
        machine, place = self.node.machine, self._place
        data = await self._referred(container)
        base = {**machine.image_environment, "HOSTNAME": host_name(self.pod)}
        env = environment(container, self.pod, place, lambda kind, name: data.get((kind, name)), base)
        name = container["name"]
        self.termination_log(name).write_text("")
        self.termination_log(name).chmod(0o666)
        return Run(
            words=command(container, env, ["elaunch"]),
            env=env,
            network=self._network.name,
            log=self.logs / name / f"{restarts}.log",
            layer=machine.home / "layers" / f"{self.uid}-{name}-{restarts}",
            inside=self._inside(container),
        )

    def _inside(self, container: Object) -> dict[str, Any]:
        machine = self.node.machine
        assert self._volumes is not None
        of_pod, own = self.pod["spec"].get("securityContext") or {}, container.get("securityContext") or {}
        secure = {**of_pod, **own}
        user = secure.get("runAsUser")
        if secure.get("runAsNonRoot") and user == 0:
            raise Missing("container's runAsUser breaks non-root policy")
        user = int(user if user is not None else 65532 if secure.get("runAsNonRoot") else 0)
        log = container.get("terminationMessagePath") or "/dev/termination-log"
        return {
            "hostname": host_name(self.pod),
            "directory": container.get("workingDir") or "/",
            "seen": machine.image_folders,
            "files": machine.image_files,
            "links": machine.image_links,
            "mounts": [
                *self._volumes.mounts(container),
                (str(self._folder / "names"), "/run/pod", False),
                (str(self.termination_log(container["name"])), log, False),
            ],
            "read_only_root": bool(secure.get("readOnlyRootFilesystem")),
            "user": user,
            "group": int(secure.get("runAsGroup", user if user == 65532 else 0)),
            "groups": [of_pod["fsGroup"]] if "fsGroup" in of_pod else [],
            "drop_capabilities": "ALL" in ((secure.get("capabilities") or {}).get("drop") or ()),
            "no_new_privileges": secure.get("allowPrivilegeEscalation") is False,
        }

    async def _referred(self, container: Object) -> dict[tuple[str, str], dict[str, str]]:
        """The config maps and secrets that an environment refers to."""
        wanted = set()
        for source in container.get("envFrom") or ():
            wanted |= {(key.removesuffix("Ref").lower(), source[key]["name"]) for key in source if key.endswith("Ref")}
        for variable in container.get("env") or ():
            for key, ref in (variable.get("valueFrom") or {}).items():
                if key.endswith("KeyRef"):
                    wanted.add((key.removesuffix("KeyRef").lower(), ref["name"]))
        found = {}
        for kind, name in wanted:
            data = await read_data(self.node.machine.api, self.namespace, kind, name)
            if data is not None:
                found[kind, name] = {key: value.decode() for key, value in data.items()}
        return found

    @property
    def _place(self) -> Place:
        return Place(self.address, self.node.name, self.node.address)

    # --- its course ----------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        await self.node.up.wait()
        self._network = await self.node.machine.connect()
        self.address = self._network.address
        self._folder.mkdir(parents=True)
        (self._folder / "names").mkdir()
        (self._folder / "names" / "namespace").write_text(self.namespace)
        self.write_hosts()
        if await self._make_volumes() and await self._initialize():
            await asyncio.gather(*(container.live() for container in self.containers))
        self.over = True
        self.changed()
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / OVER).touch()
        await self.node.machine.disconnect(self._network)
        self._network = None

    async def _make_volumes(self) -> bool:
        """Once all that they are made of is there; False where the pod ended first."""
        volumes = Volumes(self.node.machine.api, self.pod, self._place, self._folder / "volumes")
        while not self.stopping.is_set():
            try:
                await volumes.make()
            except (Missing, ApiError) as missing:  # a container is being created until it comes, as in a real one
                self.node.machine.note(f"{self.namespace}/{self.name}: volumes: {missing}")
                await self.wait_stopping(0.5)
            else:
                self._volumes = volumes
                return True
        return False

    async def _initialize(self) -> bool:
        for container in self.inits:
            if await container.live() != 0:
                return False
        return not self.stopping.is_set()

    async def _finish(self) -> None:
        await self.node.up.wait()  # a node that is away hears of it when it is back, and only then begins the grace
        self.deadline = min(self.deadline, time.monotonic() + self.grace)
        self.stopping.set()
        await asyncio.gather(*(container.stop() for container in (*self.inits, *self.containers)))
        await asyncio.wait([self._living])  # whatever came of it
        await self.node.up.wait()
        self._telling.cancel()
        with contextlib.suppress(ApiError):  # removed by someone else meanwhile
            await self._tell()
            await self.node.machine.api.call(
                "DELETE", self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
            )
        self.node.forget(self)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _tell_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.node.up.wait()
            try:
                await self._tell()
            except ApiError as error:
                self.node.machine.note(f"{self.namespace}/{self.name}: status not told: {error!r}")
                self._changed.set()
                await asyncio.sleep(0.5)

    async def _tell(self) -> None:
        body = {"metadata": {"uid": self.uid}, "status": pod_status(self)}  # else another of the same name would get it
        try:
            await self.node.machine.api.call("PATCH", f"{self.path}/status", body, MERGE)
        except ApiError as error:
            if error.status != 404 and "metadata.uid" not in str(error):
                raise

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.node.machine.note(f"{self.namespace}/{self.name}: {error!r}", error)
