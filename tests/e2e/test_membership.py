"""Who is in the world and who is not: spares, nodes with a fault of their own, ranks that keep their numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, ROOT, wait_until
from tests.e2e.test_launch import free_port

pytestmark = pytest.mark.slow

PLAIN = [str(PROGRAMS / "signalled.py")]


def test_a_node_too_many_is_a_spare_and_takes_over(job: MakeJob, etcd: str) -> None:
    one = job("--nnodes=1", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=spare", program=PLAIN)
    first = one.agent("--start=exec")
    wait_until("the first runs", lambda: one.events("start", generation=1))
    spare = one.agent("--start=exec")
    wait_until("the other is told that it is a spare", lambda: "this one is a spare" in spare.output())
    assert not one.events(generation=2), "a spare does not disturb"
    first.kill()
    first.wait()
    wait_until("the spare takes over", lambda: one.events("start", generation=2))
    late = one.agent("--start=exec")
    wait_until("another spare", lambda: "this one is a spare" in late.output())
    one.finish()
    assert [spare.wait(), late.wait()] == [0, 0], "a spare does not stay behind when the job has ended"


def test_a_node_with_a_fault_of_its_own_is_left_out(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    two = job(
        "--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=fault",
        "--rdzv-conf=last_call_timeout=0.5", program=PLAIN,
    )  # fmt: skip
    good = two.agent("--start=exec")
    wait_until("the good one runs", lambda: two.events("start", generation=1))
    (tmp_path / "broken_driver.py").write_text("raise RuntimeError('no device')")
    path = f"{ROOT}:{tmp_path}"
    bad = two.agent("--start=warm", "--preload=broken_driver", PYTHONPATH=path)
    assert bad.wait() == 71, bad.output()
    assert "RuntimeError: no device" in bad.output().strip().splitlines()[-1]
    wait_until("the good one goes on", lambda: two.events("start", rank=0)[-1]["env"]["WORLD_SIZE"] == "1")
    assert two.events("start", rank=0)[-1]["env"]["TORCHELASTIC_RESTART_COUNT"] == "0"
    two.finish()
    assert good.wait() == 0, good.output()


def test_survivors_keep_their_ranks_when_a_node_is_replaced(job: MakeJob, etcd: str) -> None:
    three = job("--nnodes=3", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=keep", program=PLAIN)
    agents = [three.agent("--start=exec")]
    wait_until("the first leads", lambda: "leading" in agents[0].output())
    agents += [three.agent("--start=exec") for _ in range(2)]
    wait_until("all run", lambda: len(three.events("start", generation=1)) == 3)
    before = {e["env"]["ELAUNCH_NODE_ID"]: e["rank"] for e in three.events("start", generation=1)}
    victim = next(a for a in agents if any(c.pid in rank_pids(three, 1, 1) for c in a.children()))
    victim.kill()
    victim.wait()
    agents[agents.index(victim)] = three.agent("--start=exec")
    wait_until("all run again", lambda: len(three.events("start", generation=2)) == 3)
    after = {e["env"]["ELAUNCH_NODE_ID"]: e["rank"] for e in three.events("start", generation=2)}
    assert {after.get(node, rank) for node, rank in before.items() if rank != 1} == {0, 2}
    assert [after[node] for node, rank in before.items() if rank != 1] == [r for r in before.values() if r != 1]
    three.finish()
    assert [agent.wait() for agent in agents] == [0, 0, 0]


def rank_pids(job: object, generation: int, rank: int) -> set[int]:
    return {e["pid"] for e in job.events("start", generation=generation, rank=rank)}  # type: ignore[attr-defined]


def test_all_nodes_stopped_at_once_leave_nothing(job: MakeJob, etcd: str) -> None:
    two = job("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=all", program=PLAIN)
    agents = [two.agent("--start=exec"), two.agent("--start=exec")]
    wait_until("both run", lambda: len(two.events("start")) == 2)
    for agent in agents:
        agent.kill(signal.SIGTERM)
    assert [agent.wait() for agent in agents] == [143, 143], two.outputs()


def test_a_node_that_leaves_does_not_wait_for_the_embedded_etcd(job: MakeJob) -> None:
    two = job(
        "--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=leave",
        "--rdzv-conf=last_call_timeout=20", program=PLAIN,
    )  # fmt: skip
    owner = two.agent("--start=exec")
    wait_until("the owner leads", lambda: "leading" in owner.output())
    other = two.agent("--start=exec")
    wait_until("both run", lambda: len(two.events("start")) == 2)
    owner.kill(signal.SIGTERM)
    assert owner.wait() == 143, "its etcd is the other's now, and no reason to stay"
    wait_until("the other goes on", lambda: two.events("start", generation=2))
    two.finish()
    assert other.wait() == 0, two.outputs()


def test_what_was_there_before_the_agent_is_left_alone(job: MakeJob, tmp_path: Path) -> None:
    """A shell script that writes through tee, and then becomes the agent: the report must still come through."""
    script = tmp_path / "entry.sh"
    script.write_text(f'exec > >(tee {tmp_path}/tee.log) 2>&1\nexec "$@"\n')
    crash = tmp_path / "crash.py"
    crash.write_text("raise SystemExit(3)\n")
    argv = ["bash", str(script), sys.executable, "-m", "elaunch", "--start=exec", str(crash)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, timeout=60)
    assert done.returncode == 3
    wait_until("tee has written it all", lambda: "exitcode  : 3" in (tmp_path / "tee.log").read_text())
