"""Agents that are told that they are in pods: SIGTERM is for one of them, the rest waits for whoever takes its place.

Kubernetes itself is in tests/kubernetes; here its variables are set, and its signals sent, by the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import PROGRAMS, ROOT, Agent, Event, Job, wait_until
from tests.etcd.servers import free_port

pytestmark = pytest.mark.slow
GRACE = 40.0  # seconds


@dataclass
class Pods:
    """The pods of an Indexed Job: each is an address on loopback."""

    job: Job
    port: int

    def start(self, index: int, *options: str) -> Agent:
        return self.job.agent(
            *options,
            JOB_COMPLETION_INDEX=str(index),
            HOSTNAME=f"train-{index}",
            ELAUNCH_POD_IP=f"127.0.0.{index + 11}",
            ELAUNCH_PROBE_FILE=str(self.beat(index)),
        )

    def beat(self, index: int) -> Path:
        return self.job.out / f"beat-{index}"

    def probe(self, index: int, what: str) -> tuple[int, str]:
        environ = {**os.environ, "ELAUNCH_PROBE_FILE": str(self.beat(index)), "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-m", "elaunch", "kubernetes", "probe", what]
        run = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout.strip()

    def told(self, event: str, generation: int = 0) -> list[Event]:
        path = self.job.out / "starts.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return [e for e in lines if e["event"] == event and (not generation or e["generation"] == generation)]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    port = free_port()
    env = {
        "ELAUNCH_GRACE_PERIOD": str(GRACE),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}",
        "PET_RDZV_CONF": "lease_ttl=6",
        "PET_RDZV_ID": "train",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    program = (str(PROGRAMS / "ledgering.py"),)
    job = Job(tmp_path / "out", ["--start=exec", "--nproc-per-node=1"], program, env)
    yield Pods(job, port)
    assert job.close(within=60) == []


def both_work(pods: Pods) -> None:
    """Both ranks can hear of a notice, and there is a checkpoint."""
    wait_until("both ranks", lambda: len(pods.told("start", 1)) == 2)
    wait_until("a checkpoint", (pods.job.out / "checkpoint.json").exists)


def test_a_deleted_pod_leaves_with_85_and_the_others_wait_for_the_next(pods: Pods) -> None:
    """Though they are too few to go on without it."""
    stays, goes = pods.start(0, "--nnodes=2"), pods.start(1, "--nnodes=2")
    both_work(pods)
    goes.kill(signal.SIGTERM)
    assert goes.wait() == 85
    assert "Kubernetes stopped this node (SIGTERM): work remains" in goes.output()
    noticed = wait_until("both are told", lambda: len(found := pods.told("noticed")) == 2 and found)
    assert {e["rank"] for e in noticed} == {0, 1}
    assert all(25 < e["left"] < GRACE for e in noticed)  # what the pod has, and not the usual grace of 25 s
    saved = json.loads((pods.job.out / "checkpoint.json").read_text())["step"]
    assert stays.process.poll() is None
    pods.start(1, "--nnodes=2")
    again = wait_until("generation 2", lambda: len(found := pods.told("start", 2)) == 2 and found)
    assert {e["step"] for e in again} == {saved}


def test_with_fewer_pods_allowed_the_rest_goes_on_at_once(pods: Pods) -> None:
    pods.start(0, "--nnodes=1:2", "--rdzv-conf=lease_ttl=6,last_call_timeout=2")
    goes = pods.start(1, "--nnodes=1:2", "--rdzv-conf=lease_ttl=6,last_call_timeout=2")

    def both() -> list[Event]:
        found = [e for e in pods.told("start") if e["world"] == 2]
        return found if len(found) == 2 else []

    first = wait_until("two ranks", both)[0]["generation"]
    goes.kill(signal.SIGTERM)
    assert goes.wait() == 85
    wait_until("one rank", lambda: [e for e in pods.told("start", first + 1) if e["world"] == 1])


def test_when_the_whole_job_is_deleted_all_pods_leave_with_85(pods: Pods) -> None:
    agents = [pods.start(0, "--nnodes=2"), pods.start(1, "--nnodes=2")]
    both_work(pods)
    for agent in agents:
        agent.kill(signal.SIGTERM)
    assert [agent.wait() for agent in agents] == [85, 85]
    assert {e["rank"] for e in pods.told("noticed")} == {0, 1}


def test_a_pod_is_ready_when_it_is_of_use_and_lives_while_its_agent_runs(pods: Pods) -> None:
    first = pods.start(0, "--nnodes=2")
    wait_until("a beat", lambda: pods.probe(0, "live")[0] == 0)
    wait_until("the wait for another node", lambda: "waiting" in first.output())
    code, text = pods.probe(0, "ready")
    assert (code, text.startswith("not ready: ")) == (1, True)
    pods.start(1, "--nnodes=2")
    wait_until("a member", lambda: pods.probe(0, "ready") == (0, "ready: a member of generation 1"))
    first.kill(signal.SIGSTOP)
    try:
        time.sleep(0.1)  # a stopped process beats no more; only the wait for the beat to be stale is left out
        beat = pods.beat(0).read_text()
        time.sleep(2.5)
        assert pods.beat(0).read_text() == beat
    finally:
        first.kill(signal.SIGCONT)


def test_a_spare_is_ready(pods: Pods) -> None:
    conf = "--rdzv-conf=lease_ttl=6,last_call_timeout=1"
    pods.start(0, "--nnodes=1", "--spares=1", "--rdzv-id=x", conf)
    wait_until("a member", lambda: pods.probe(0, "ready")[0] == 0)
    pods.start(1, "--nnodes=1", "--spares=1", "--rdzv-id=x", conf)
    spare = (0, "ready: the job has all the nodes that it may have; this one is a spare")
    wait_until("a spare", lambda: pods.probe(1, "ready") == spare)
