"""The training on the hosts of a laboratory, into which faults are injected: one agent and one rank on each."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import SIGUSR1

from elaunch.errors import ElaunchError, NoSuchJobError
from elaunch.inject.expecting import Settings
from elaunch.lab import Lab, LabAgent
from elaunch.lab.controllers import TTL
from elaunch.qualify.faulting import OPTIONS, PROGRAM
from elaunch.qualify.lines import Line, found, of
from elaunch.qualify.link_tree import ROOT
from elaunch.qualify.matrix import HANG

HOSTS = (1, 2)
LEASE = 5  # seconds, of the nodes
SETTINGS = Settings(hang=HANG, lease=float(LEASE), controller=float(TTL))
STARTS = 120.0  # seconds for a generation to come to a step, on a machine that is busy
_WORDS = (f"--nnodes=1:{len(HOSTS)}", f"--rdzv-conf=lease_ttl={LEASE},last_call_timeout=2", *OPTIONS)
_LOOK = 0.05  # seconds


class LabJob:
    """One such job; it runs once it is made. ``trees`` stand for the sysfs of hosts. Raises TimeoutError."""

    def __init__(self, lab: Lab, name: str, trees: Mapping[int, Path] | None = None) -> None:
        self.name, self.lab, self._trees = name, lab, trees or {}
        self._folder = lab.folder / f"checkpoints-{name}"
        self._folder.mkdir()
        self._agents: dict[int, LabAgent] = {}
        self._read: dict[Path, int] = {}
        self._lines: list[Line] = []
        self.watched = lab.watched(name)
        try:
            self.mend()
            self.whole(STARTS)
        except BaseException:
            self.end()
            raise

    def mend(self) -> None:
        """Start the agents that have ended, as a scheduler does."""
        for host in HOSTS:
            if host not in self._agents or self._agents[host].process.poll() is not None:
                self._agents[host] = self._started(host)

    def _started(self, host: int) -> LabAgent:
        ports = ("--nic-policy=all",) if self._trees else ()
        env = {ROOT: str(self._trees.get(host, "")), "GLOO_SOCKET_IFNAME": "nic0,nic1", "OMP_NUM_THREADS": "1"}
        words = (*_WORDS, *ports, *PROGRAM, str(self._folder), "0")
        agent = self.lab.agent(host, self.name, *words, PYTHONWARNINGS="ignore", PYTHONUNBUFFERED="1", **env)
        self._read[agent.log] = 0
        return agent

    def lines(self) -> list[Line]:
        """What the ranks have told so far."""
        for log, begin in self._read.items():
            with log.open("rb") as file:
                file.seek(begin)
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self._read[log] += len(text)
            self._lines += found(text.decode(errors="replace"))
        return self._lines

    def generation(self) -> int:
        state = self.watched.look().state
        return state.generation if state is not None else 0

    def steps(self, generation: int) -> int:
        """How many this generation has done so far."""
        return len(of(self.lines(), "loss", generation=generation))

    def rank_on(self, host: int) -> int:
        """The first rank of a host; 0 where it has none now."""
        seen = self.watched.look()
        ids = {node.node_id for node in seen.nodes if node.host == self.lab.net.host(host)}
        members = seen.plan.members if seen.plan is not None else ()
        return next((member.rank0 for member in members if member.node_id in ids), 0)

    def stopped(self, host: int) -> bool:
        """Whether the agent there is stopped."""
        try:
            stat = Path(f"/proc/{self._agents[host].pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def leads(self) -> int:
        """The number, from 1, of the controller that leads; an agent leads only until there is one."""
        hosts = {self.lab.net.control(one.host): number for number, one in enumerate(self.lab.controllers, 1)}

        def number() -> int:
            leader = self.watched.look().leader
            return hosts.get(leader.address.rpartition(":")[0], 0) if leader is not None else 0

        self.until("a controller that leads", lambda: number() > 0, STARTS)
        return number()

    def growths(self) -> int:
        """How often a node that came late was taken in."""
        return len([one for one in self.watched.events("job_aborting") if one.text.endswith(" joined")])

    def whole(self, seconds: float) -> None:
        """Wait until ranks of all hosts do steps, with a checkpoint behind them. Raises TimeoutError."""

        at = [0, 0]  # a generation of all hosts, and its steps when it was first seen

        def goes_on() -> bool:
            seen = self.watched.look()
            all_there = seen.plan is not None and len(seen.plan.members) == len(HOSTS) and seen.phase == "running"
            generation = seen.state.generation if all_there and seen.state is not None else 0
            if generation != at[0]:
                at[:] = [generation, self.steps(generation)]
            return generation > 0 and self.steps(generation) > at[1]

        deadline = time.monotonic() + seconds
        self.until("steps of ranks on all hosts", goes_on, seconds)
        left = max(1.0, deadline - time.monotonic())
        self.until("a checkpoint", lambda: bool(self.watched.events("checkpoint_committed")), left)

    def until(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Raises TimeoutError."""

        def holds() -> bool:
            try:
                return condition()
            except NoSuchJobError:  # not yet
                return False

        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            time.sleep(_LOOK)

    def end(self) -> None:
        """Have it end by itself, or at once where it does not."""
        try:
            if all(agent.process.poll() is None for agent in self._agents.values()):
                self.watched.command("signal", signal=int(SIGUSR1))
                for agent in self._agents.values():
                    agent.wait(30.0)
        except (ElaunchError, OSError, TimeoutError, ValueError, subprocess.TimeoutExpired):
            pass
        finally:
            for agent in self._agents.values():
                if agent.process.poll() is None:
                    agent.process.kill()
                    agent.process.wait(20.0)
            self.watched.close()
