"""The life of a container: started, probed, started again by the pod's policy, stopped with its grace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kubernetes import probes
from tests.kubernetes.api import ApiError
from tests.kubernetes.containers import Process, Run, StartError
from tests.kubernetes.environment import Missing

if TYPE_CHECKING:
    from tests.kubernetes.pod_life import PodLife

Object = Mapping[str, Any]
State = dict[str, Any]
_BACK_OFF = (0.0, 1.0, 2.0, 4.0, 8.0)  # seconds; a kubelet's, ten times as fast
_STEADY = 30.0  # seconds after which a container counts as running well
_MESSAGE = 4096  # bytes of a termination message
_TICK = 0.2  # seconds: a deadline can be brought forward


class ContainerLife:
    """``again`` says of an exit code whether the container is to be started again after it."""

    def __init__(self, pod: PodLife, spec: Object, policy: str) -> None:
        waits = bool(pod.pod["spec"].get("initContainers"))
        self.pod, self.spec, self._policy = pod, spec, policy
        self.state: State = {"waiting": {"reason": "PodInitializing" if waits else "ContainerCreating"}}
        self.last: State = {}
        self.restarts, self.ready, self.started = 0, False, False
        self._process: Process | None = None
        self._ended = asyncio.Event()

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def exit_code(self) -> int | None:
        """Of a container that is not started again."""
        terminated = self.state.get("terminated") or self.last.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])

    def status(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "image": self.spec.get("image", ""),
            "imageID": f"tests://{self.spec.get('image', '')}",
            "containerID": f"tests://{self.pod.uid}-{self.name}-{self.restarts}",
            "restartCount": self.restarts,
            "ready": self.ready,
            "started": self.started,
            "state": self.state,
            "lastState": self.last,
        }

    def log(self, restarts: int) -> Path:
        return self.pod.logs / self.name / f"{restarts}.log"

    async def live(self) -> int | None:
        """Until the container is not started again; its last exit code, None where it never ran."""
        delays = 0
        while not self.pod.stopping.is_set():
            began = time.monotonic()
            code = await self._run_once()
            if code is None or self.pod.stopping.is_set() or not self._again(code):
                return code
            delays = 0 if time.monotonic() - began > _STEADY else delays
            await self._back_off(_BACK_OFF[min(delays, len(_BACK_OFF) - 1)])
            delays += 1
        return self.exit_code

    async def stop(self) -> None:
        """At the end of the pod, or of a container whose liveness probe fails: preStop, SIGTERM, the grace, SIGKILL."""
        process = self._process
        if process is None:
            return
        deadline = time.monotonic() + self.pod.grace
        with contextlib.suppress(OSError):
            await self._hook("preStop", process, self.pod.grace)
        process.signal(signal.SIGTERM)
        while not self._ended.is_set() and time.monotonic() < min(deadline, self.pod.deadline):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK)
        process.signal(signal.SIGKILL)

    async def kill(self) -> None:
        """At once; no process of it is left when this returns."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            await self._ended.wait()

    def _again(self, code: int) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and code != 0)

    async def _back_off(self, seconds: float) -> None:
        self.last = self.state
        if seconds:
            text = f"back-off {seconds:g}s restarting failed container={self.name} pod={self.pod.name}"
            self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
            self.pod.changed()
            await self.pod.wait_stopping(seconds)
        if not self.pod.stopping.is_set():
            self.restarts += 1

    async def _run_once(self) -> int | None:
        """Start the program and wait for its end; its exit code, or None where the pod ended first."""
        run = await self._await_run()
        if run is None:
            return None
        self._ended.clear()
        try:
            self._process = await Process.start(run)
        except StartError as error:
            self._set_terminated(128, str(error), "StartError", _now())
            return 128
        began = _now()
        self.state, self.started = {"running": {"startedAt": began}}, "startupProbe" not in self.spec
        self.ready = self.started and "readinessProbe" not in self.spec
        self.pod.changed()
        if not self.pod.node.up.is_set() or self.pod.stopping.is_set():
            self._process.signal(signal.SIGKILL)
        probing = asyncio.ensure_future(self._probe(self._process))
        code = await self._process.wait()
        probing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await probing
        self._process = None
        self._ended.set()
        await self.pod.node.up.wait()
        self._set_terminated(code, self._message(run, code), "Completed" if code == 0 else "Error", began)
        return code

    async def _await_run(self) -> Run | None:
        while not self.pod.stopping.is_set():
            try:
                return await self.pod.prepare(self.spec, self.restarts)
            except (Missing, ApiError) as missing:
                self.state = {"waiting": {"reason": "CreateContainerConfigError", "message": str(missing)}}
                self.pod.changed()
                await self.pod.wait_stopping(0.5)
        return None

    def _set_terminated(self, code: int, message: str, reason: str, began: str) -> None:
        told = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": _now()}
        told["containerID"] = f"tests://{self.pod.uid}-{self.name}-{self.restarts}"
        self.state = {"terminated": {**told, "message": message} if message else told}
        self.ready = self.started = False
        self.pod.changed()

    def _message(self, run: Run, code: int) -> str:
        text = self.pod.termination_log(self.name).read_bytes()
        if not text and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = b"\n".join(run.log.read_bytes().splitlines()[-80:])[-2048:]
        return text[:_MESSAGE].decode(errors="replace")

    async def _probe(self, process: Process) -> None:
        """postStart, and then the probes, as long as this run lasts."""
        await self._hook("postStart", process, 30.0)
        if startup := self.spec.get("startupProbe"):
            await self._watch(startup, process, self._start_verdict)
        watched = []
        if liveness := self.spec.get("livenessProbe"):
            watched.append(self._watch(liveness, process, self._liveness_verdict))
        if readiness := self.spec.get("readinessProbe"):
            watched.append(self._watch(readiness, process, self._readiness_verdict))
        await asyncio.gather(*watched)

    async def _watch(self, probe: Object, process: Process, verdict: Any) -> None:
        await probes.watch(probe, lambda: probes.look(probe, process, self.spec, self.pod.address), verdict)

    def _start_verdict(self, fine: bool, said: str) -> bool:
        if not fine:
            return self._liveness_verdict(False, said)
        self.started, self.ready = True, "readinessProbe" not in self.spec
        self.pod.changed()
        return True

    def _readiness_verdict(self, fine: bool, said: str) -> bool:
        if self.ready != fine:
            self.ready = fine
            self.pod.changed()
        return False

    def _liveness_verdict(self, fine: bool, said: str) -> bool:
        if not fine:
            self.pod.node.machine.note(f"{self.pod.name}/{self.name}: probe failed, the container is stopped: {said}")
            self.pod.background(self.stop())
        return not fine

    async def _hook(self, name: str, process: Process, seconds: float) -> None:
        hook = (self.spec.get("lifecycle") or {}).get(name) or {}
        if command := hook.get("exec"):
            await process.execute(command["command"], seconds)
        elif get := hook.get("httpGet"):
            await probes.http_get(get, self.spec, self.pod.address, seconds)
        elif pause := hook.get("sleep"):
            await asyncio.sleep(min(float(pause["seconds"]), seconds))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
