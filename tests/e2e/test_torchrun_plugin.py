"""The plug-in under torchrun itself: real agents and ranks, a real etcd, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.store import KeyValue
from tests.e2e.harness import wait_until
from tests.etcd.servers import start_single

pytestmark = [pytest.mark.slow, pytest.mark.torch]

ROOT = Path(__file__).resolve().parents[2]
JOB = "a job"
DEADLINE = 180.0  # seconds, against those that hang

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


FUNCTION = """
import sys
import torch, torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

def work(number):
    dist.init_process_group("gloo")
    x = torch.tensor([number])
    dist.all_reduce(x)
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank, int(x[0])

if __name__ == "__main__":
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="fn", start_method="spawn",
        rdzv_backend="elaunch", rdzv_endpoint=sys.argv[1],
    )
    print("results", elastic_launch(config, work)(21))
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
                    *("--rdzv-backend=elaunch", f"--rdzv-endpoint={self.endpoint}", f"--rdzv-id={JOB}"),
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

    def keys(self, under: str) -> list[KeyValue]:
        """The job's keys in etcd, in their order."""

        async def read() -> list[KeyValue]:
            store = EtcdStore([self.endpoint])
            try:
                return list((await store.list(JobKeys(JOB).prefix + under)).items)
            finally:
                await store.close()

        return asyncio.run(read())

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
    member = start_single(tmp_path)
    yield member.endpoint
    member.kill()


@pytest.fixture
def job(tmp_path: Path, etcd: str) -> Iterator[Job]:
    (tmp_path / "program.py").write_text(PROGRAM)
    job = Job(tmp_path, etcd)
    yield job
    job.close()


@pytest.mark.timeout(600)
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
    options = ("--nnodes=1:2", "--max-restarts=1", "--rdzv-conf=lease_ttl=6,last_call_timeout=20")
    third, fourth = job.start_agent("c", *options), job.start_agent("d", *options)
    job.wait_for(generation=3, size=4)
    third.kill()
    job.wait_for(generation=4, size=2)

    # A late node makes the world grow, without a restart being charged.
    fifth = job.start_agent("e", *options)
    grown = job.wait_for(generation=5, size=4)
    assert {rank["TORCHELASTIC_RESTART_COUNT"] for rank in grown} == {"0"}

    # A signal to an agent: its key is gone as soon as it is, whatever the lease.
    fifth.terminate()
    assert fifth.wait(DEADLINE) != 0
    assert len(job.keys("nodes/")) == 1
    job.wait_for(generation=6, size=2)
    job.finish(fourth)

    assert job.keys("nodes/") == []
    plans = job.keys("plans/")
    assert [int(plan.key.rpartition("/")[2]) for plan in plans] == [1, 2, 3, 4, 5, 6]
    assert all(plan.create_revision == plan.mod_revision for plan in plans), "a plan was written twice"


def handler(endpoint: str, *, min_nodes: int = 1, max_nodes: int = 2, job: str = "handler", **conf: object) -> Any:
    """A handler in this process, made as torchrun makes it."""
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    from elaunch.rendezvous.torchrun import create_registration

    return create_registration()(RendezvousParameters("elaunch", endpoint, job, min_nodes, max_nodes, **conf))


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"lease": "3"}, "unknown key 'lease'"),
        ({"lease_ttl": "1"}, "lease_ttl=1: expected whole seconds, 2 or more"),
        ({"join_timeout": "soon"}, "join_timeout=soon: expected a number of seconds"),
        ({"password": "x"}, "ELAUNCH_ETCD_PASSWORD"),
    ],
)
def test_a_bad_conf_is_refused(conf: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        handler("127.0.0.1:2379", **conf)


def test_an_etcd_that_does_not_answer_is_a_connection_error() -> None:
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError

    lonely = handler("127.0.0.1:9", etcd_timeout="1")
    with pytest.raises(RendezvousConnectionError, match=r"127\.0\.0\.1:9"):
        lonely.next_rendezvous()
    assert lonely.shutdown()


def test_too_few_nodes_are_a_timeout_that_closes_nothing(etcd: str) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousError, RendezvousTimeoutError

    first = handler(etcd, min_nodes=2, join_timeout="2")
    with pytest.raises(RendezvousTimeoutError, match="1 nodes wait, 0 run; 2 to 2 are wanted"):
        first.next_rendezvous()
    assert first.shutdown()
    second = handler(etcd, last_call_timeout="0")
    try:
        info = second.next_rendezvous()
        assert (info.rank, info.world_size, second.num_nodes_waiting(), second.is_closed()) == (0, 1, 0, False)
        info.store.set("key", "value")
        old, info = info.store, second.next_rendezvous()
        assert not info.store.check(["key"]), "a round's store must be a new one"
        assert old.get("key") == b"value", "the old store must live as long as somebody uses it"
        with pytest.raises(RendezvousError, match="--nnodes is 3 here and 2 in the job"):
            handler(etcd, max_nodes=3).next_rendezvous()
        second.set_closed()
        with pytest.raises(RendezvousClosedError):
            second.next_rendezvous()
        assert second.is_closed()
    finally:
        assert second.shutdown()


def test_a_round_whose_store_never_comes_is_given_up(etcd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent that was to host the store dies between the plan and the store."""
    from elaunch.rendezvous import torchrun_handler

    monkeypatch.setattr(torchrun_handler, "_CONNECT_TRY", 0.5)
    host, other = handler(etcd), handler(etcd)

    def die(_attendance: object, _plan: object, listener: socket.socket) -> None:
        listener.close()
        host._leave()
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "_open_store", die)

    def live() -> None:
        with pytest.raises(KeyboardInterrupt):
            host.next_rendezvous()

    dying = threading.Thread(target=live, daemon=True)
    dying.start()
    wait_until("the host's joining", lambda: host._attendance is not None and host._attendance.node_id)
    try:
        info = other.next_rendezvous()
        assert (info.rank, info.world_size) == (0, 1)
        assert int(os.environ["ELAUNCH_GENERATION"]) == 2
    finally:
        other.shutdown()
        dying.join(DEADLINE)


def test_functions_return_their_results_by_rank(etcd: str, tmp_path: Path) -> None:
    program = tmp_path / "function.py"
    program.write_text(FUNCTION)
    ran = subprocess.run(
        [sys.executable, str(program), etcd],
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "results {0: (0, 42), 1: (1, 42)}\n", ran.stderr
