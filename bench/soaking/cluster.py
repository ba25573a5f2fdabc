"""The hosts of a soak: an agent on each, started again as a scheduler would."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from elaunch.inject import Fault
from elaunch.lab import Lab, LabAgent
from elaunch.qualify.link_tree import made

from .broken import BrokenError
from .course import HOSTS

JOB = "soak"
PROGRAM = Path(__file__).with_name("program.py")
_AGAIN = 2.0  # seconds after which a scheduler starts what was killed
_KILLED = -9
_OPTIONS = (
    f"--nnodes=1:{HOSTS}", "--allow-injection", "--max-restarts=1000000", "--quarantine-faults=0", "--crash-loop=0",
    "--suspect-after=0", "--nic-policy=all", "--hang-timeout=6", "--rdzv-conf=lease_ttl=4,last_call_timeout=2",
)  # fmt: skip
"""Budgets are no part of a soak: the job is to live through all of it. Faults last for 1 to 8 seconds: half of those
that a lease or a hang is about last longer.
"""


@dataclass
class Cluster:
    """``folder`` is what all hosts see, and where logs stay."""

    lab: Lab
    folder: Path
    agents: dict[int, LabAgent] = field(default_factory=dict)
    ending: bool = False
    _killed: dict[int, float] = field(default_factory=dict)
    _doomed: set[int] = field(default_factory=set)

    def start(self) -> None:
        for host in range(1, HOSTS + 1):
            made(self._tree(host), {})
            self._start(host)

    def _start(self, host: int) -> None:
        self.agents[host] = self.lab.agent(
            host, JOB, *_OPTIONS, f"--log-dir={self.folder / 'logs'}", str(PROGRAM), str(self.folder),
            GLOO_SOCKET_IFNAME="nic0,nic1", ELAUNCH_SYSFS_ROOT=str(self._tree(host)),
        )  # fmt: skip

    def _tree(self, host: int) -> Path:
        """Stands for its sysfs, so that ports can fail in it."""
        return self.folder / "sysfs" / str(host)

    def about(self, fault: Fault, host: int) -> None:
        """This is going to be done to a host."""
        if fault.kind == "agent-kill":
            self._doomed.add(host)

    def tend(self) -> None:
        """Start again what was killed. Raises BrokenError where an agent has ended and was not to."""
        now = time.monotonic()
        for host, agent in self.agents.items():
            code = agent.process.poll()
            if code is None or self.ending:
                continue
            if host not in self._killed:
                if code != _KILLED or host not in self._doomed:
                    last = [line for line in agent.output().splitlines() if line.strip()][-1:]
                    text = f"the agent of host {host} (pid {agent.pid}) has ended with {code}: {' '.join(last)[:300]}"
                    raise BrokenError("progress", text)
                self._doomed.discard(host)
                self._killed[host] = now
            elif now - self._killed[host] >= _AGAIN:
                del self._killed[host]
                self._start(host)

    def end(self, seconds: float) -> None:
        """Have the program end, and all agents with it. Raises BrokenError."""
        self.ending = True
        (self.folder / "stop").touch()
        deadline = time.monotonic() + seconds
        while any(agent.process.poll() is None for agent in self.agents.values()):
            if time.monotonic() > deadline:
                late = [host for host, agent in self.agents.items() if agent.process.poll() is None]
                raise BrokenError(
                    "progress", f"the agents of hosts {late} have not ended {seconds:.0f} s after the end"
                )
            time.sleep(0.05)
        codes = {host: agent.process.poll() for host, agent in self.agents.items()}
        if any(codes.values()):
            raise BrokenError("progress", f"agents have ended with {codes} after a training that ends well")

    def keep(self, folder: Path) -> None:
        """Copy what all processes of the laboratory have written."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.lab.folder.glob("*.log"):
            shutil.copy(path, folder)
