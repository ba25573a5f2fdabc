"""The laboratory: hosts, an etcd of three members, two controllers, agents of jobs on its hosts, and faults in it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from elaunch.errors import ElaunchError
from elaunch.inject.fault import Fault
from elaunch.inject.scheduling import Planned
from elaunch.lab import faults
from elaunch.lab.controllers import LabController, environment
from elaunch.lab.etcd import EtcdMember
from elaunch.lab.jobs import Watched
from elaunch.lab.network import Host, Network, Place
from elaunch.lab.parts import Parts
from elaunch.rendezvous.journal import Operation


@dataclass
class LabAgent:
    """One ``elaunch`` on a host; ``log`` is what it and its ranks print."""

    host: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        return self.process.wait(seconds)


class Injection:
    """A fault that has begun; it is undone by ``end``, at the end of a ``with`` block, or after its duration.

    ``error`` is why it could not be undone.
    """

    def __init__(self, lab: Lab, fault: Fault, host: Host, place: Place | None, job: Watched | None) -> None:
        self.fault, self.host = fault, host
        self._lab, self._job = lab, job
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.error: Exception | None = None
        self._tell(over=False)
        try:
            self._undo = faults.begin(lab.parts, fault, host, place)
        except (OSError, subprocess.SubprocessError):
            self._tell(over=True)
            raise
        lab.remember(self)
        self._timer = threading.Timer(fault.seconds, self._timed) if fault.seconds else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        elif not fault.what.lasts and fault.kind == "reset":
            self.end()

    def __enter__(self) -> Injection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Undo it, once. Raises what its undoing raised, also where that was before."""
        with self._lock:
            first = not self._over.is_set()
            if first:
                self._undone()
        if self.error is not None:
            raise self.error
        if first:
            self._tell(over=True)

    @property
    def over(self) -> bool:
        """Whether it is undone, or could not be (``error``)."""
        return self._over.is_set()

    def _undone(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._undo()
        except (OSError, subprocess.SubprocessError) as error:
            self.error = error
        finally:
            self._lab.forget(self)
            self._over.set()

    def wait(self, seconds: float = 60.0) -> None:
        """Until it is undone. Raises TimeoutError, and what its undoing raised."""
        if not self._over.wait(seconds):
            raise TimeoutError(f"{self.fault} is not undone after {seconds:.0f} s")
        if self.error is not None:
            raise self.error

    def _timed(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # for whoever waits, or ends it
            self.end()

    def _tell(self, *, over: bool) -> None:
        if self._job is not None and not self._job.closed:
            with contextlib.suppress(ElaunchError):  # its etcd may be what fails
                self._job.announce(self.fault, self._lab.name_of(self.fault, self.host), over=over)


class Lab:
    """``hosts`` of ``rails`` data interfaces each, an etcd of ``members`` and so many ``controllers``.

    To be entered as a context; several may be there at once. Raises NoGroundError, OSError, TimeoutError.
    """

    def __init__(self, hosts: int = 3, *, rails: int = 2, members: int = 3, controllers: int = 2) -> None:
        names = [f"e{n}" for n in range(1, members + 1)], [f"k{n}" for n in range(1, controllers + 1)]
        self.net = Network(hosts, rails, (*names[0], *names[1]))
        self.etcd = [EtcdMember(self.net, name, tuple(names[0])) for name in names[0]]
        self.controllers = [LabController(self.net, name, ()) for name in names[1]]
        self.parts = Parts(self.net, self.etcd, self.controllers)
        self.agents: list[LabAgent] = []
        self._faults: list[Injection] = []
        self._stack = ExitStack()

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            stack.enter_context(self.net)
            stack.callback(self._close)
            for member in self.etcd:  # none serves before most run
                member.start()
            for member in self.etcd:
                member.ready()
            for controller in self.controllers:
                controller.etcd = self.endpoints
                controller.start()
            for controller in self.controllers:
                controller.ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Of the etcd."""
        return tuple(member.endpoint for member in self.etcd)

    @property
    def folder(self) -> Path:
        """For files that go with the laboratory."""
        return self.net.folder

    def name_of(self, fault: Fault, host: Host) -> str:
        """Of whom a fault hits."""
        if fault.what.target == "etcd":
            host = self.parts.member(host).host
        elif fault.what.target == "controller":
            host = self.parts.controller(host).host
        return self.net.host(host)

    def agent(self, host: int, job: str, *words: str, **env: str) -> LabAgent:
        """Start an agent of ``job`` on a host: ``words`` are its other options, the program and its arguments."""
        argv = [
            *self.net.at(host),
            *(sys.executable, "-m", "elaunch", "--rdzv-backend=etcd", f"--rdzv-endpoint={','.join(self.endpoints)}"),
            *(f"--rdzv-id={job}", f"--local-addr={self.net.control(host)}"),
            *(f"--log-dir={self.folder / f'ranks-{host}-{len(self.agents)}'}", *words),
        ]
        log = self.folder / f"agent-{host}-{len(self.agents)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                argv, env=environment(**env), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        self.agents.append(LabAgent(host, process, log))
        return self.agents[-1]

    def watched(self, job: str) -> Watched:
        """A job here, to be looked at and injected into; to be closed."""
        return Watched(job, self.endpoints)

    def fault(self, fault: Fault, host: Host, place: Place | None = None, *, job: Watched | None = None) -> Injection:
        """Begin a fault of the laboratory: of a host's network, or of an etcd member or controller (by number or name).

        Raises OSError, SubprocessError where it cannot be brought about, ValueError where it is none of a laboratory.

        ``place`` is a rail, or "c" for the control interface; None: all that the fault is about. It is told in the
        history of ``job``. It ends after its duration, or at ``Injection.end``.
        """
        return Injection(self, fault, host, place, job)

    def bring_about(self, planned: Planned, job: Watched) -> Injection | Operation:
        """One fault of a course (``elaunch.inject.schedule``), by whoever can: the job's agents, or the laboratory.

        A fault of a node, or of a port, hits the node of the host that was drawn. Raises ElaunchError where the job
        has nobody whom it could hit just now.
        """
        fault = planned.fault
        if fault.what.target in ("node", "port"):
            fault = replace(fault, node=self.net.host(planned.host))
        return job.inject(fault) if "job" in fault.what.carriers else self.fault(fault, planned.host, job=job)

    def remember(self, injection: Injection) -> None:
        """It is to be undone when the laboratory ends, if nobody does before."""
        self._faults.append(injection)

    def forget(self, injection: Injection) -> None:
        if injection in self._faults:
            self._faults.remove(injection)

    def outputs(self) -> str:
        """What all agents have printed."""
        return "\n".join(f"--- host {agent.host}\n{agent.output()}" for agent in self.agents)

    def _close(self) -> None:
        """End what runs here; the rest is the reaper's."""
        for injection in tuple(self._faults):
            with contextlib.suppress(OSError, subprocess.SubprocessError, TimeoutError):
                injection.end()
        processes: Sequence[subprocess.Popen[bytes] | None] = [
            *(agent.process for agent in self.agents),
            *(controller.process for controller in self.controllers),
            *(member.process for member in self.etcd),
        ]
        for process in processes:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(20)
