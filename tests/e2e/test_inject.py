"""Faults on purpose in real jobs: each is told when it begins and when it is over, and so is what came of it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from elaunch.errors import CommandRefusedError, NoSuchJobError
from elaunch.inject import Fault
from elaunch.lab import Watched
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, gone, wait_until
from tests.e2e.operating import elaunch
from tests.unit.topology.link_tree import LinkTree

pytestmark = pytest.mark.slow

PROGRAM = [str(PROGRAMS / "injected.py")]
ENDLESS = ("--max-restarts=100", "--quarantine-faults=0", "--crash-loop=0")
HOST = os.uname().nodename


class Subject:
    """A job of two ranks that allows injection, and what is seen of it."""

    def __init__(self, job: Job, watched: Watched) -> None:
        self.job, self.watched = job, watched
        self.generation = 0
        self.next()

    def next(self) -> None:
        """Wait for the next generation to be at work."""
        self.generation += 1
        wait_until(
            f"generation {self.generation} at work",
            lambda: {e["rank"] for e in self.job.events("step", generation=self.generation)} == {0, 1},
        )

    def pid(self, rank: int) -> int:
        return int(self.job.events("start", generation=self.generation, rank=rank)[0]["pid"])

    def reason(self) -> tuple[str, str]:
        """Why the present generation began: the code, and the sentence."""
        plan = self.watched.look().plan
        assert plan is not None
        return plan.reason.code, plan.reason.text

    def told(self, fault: Fault) -> list[str]:
        """What the history says of a fault, once it is over."""

        def both() -> list[str]:
            texts = [f"{line.code} {line.text}" for line in self.watched.events("injection_began", "injection_ended")]
            mine = [text for text in texts if str(fault) in text]
            return mine if len(mine) >= 2 else []

        return list(wait_until(f"begin and end of {fault}", both))


@pytest.fixture
def subject(job: MakeJob, etcd: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Subject]]:
    watched: list[Watched] = []

    def make(*options: str, **env: str) -> Subject:
        name = f"inject-{request.node.name}-{len(watched)}"
        one = job(
            "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", "--start=exec", *ENDLESS, *options,
            program=PROGRAM, env=env,
        )  # fmt: skip
        one.agent("--nproc-per-node=2")
        watched.append(Watched(name, [etcd]))
        return Subject(one, watched[-1])

    yield make
    for one in watched:
        one.close()


def test_nothing_is_injected_into_a_job_that_does_not_allow_it(subject: Callable[..., Subject], etcd: str) -> None:
    """The command line ends with 68 and one line, nothing happens, and the ranks know of nothing."""
    one = subject()
    name = one.watched.job
    answer = elaunch("inject", name, "kill", "--rank=1", f"--rdzv-endpoint={etcd}")
    assert answer.code == 68
    assert answer.err == (
        f"elaunch: error: {name}: inject: the job was not started with --allow-injection: nothing can be injected"
        " into it\n"
    )
    with pytest.raises(CommandRefusedError):
        one.watched.inject(Fault("sleep", rank=0, at="forward", seconds=1))
    assert not any(e["allowed"] for e in one.job.events("start"))
    assert one.watched.events("injection_began", "injection_ended") == []
    one.job.finish()
    assert one.job.agents[0].wait() == 0
    assert {e["generation"] for e in one.job.events()} == {1}


def test_an_agent_refuses_by_itself(job: MakeJob, etcd: str) -> None:
    """The first node's options are the leader's policy; another that was started without refuses what it is asked."""
    common = ("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=inject-own", "--start=exec", "--nnodes=2")
    one = job(*common, *ENDLESS, program=PROGRAM)
    one.agent("--allow-injection")
    wait_until("the first leads", lambda: "leading" in one.agents[0].output())
    one.agent()
    with Watched("inject-own", [etcd]) as watched:
        watched.running()
        wait_until("both are at work", lambda: {e["rank"] for e in one.events("step")} == {0, 1})
        ranks = {e["rank"]: e["allowed"] for e in one.events("start")}
        refusing = next(rank for rank, allowed in ranks.items() if not allowed)
        with pytest.raises(CommandRefusedError, match="this node was not started with --allow-injection"):
            watched.inject(Fault("kill", rank=refusing))
        watched.inject(Fault("kill", rank=1 - refusing, signal=int(signal.SIGUSR1)))
        wait_until("the signal", lambda: one.events("signal", rank=1 - refusing))
        one.finish()
    assert [agent.wait() for agent in one.agents] == [0, 0]
    assert {e["generation"] for e in one.events()} == {1}


def test_deaths(subject: Callable[..., Subject], etcd: str) -> None:
    """At once and at points, in this generation and the next; whoever died is named."""
    one = subject("--allow-injection")
    answer = elaunch("inject", one.watched.job, "kill", "--rank=1", f"--rdzv-endpoint={etcd}", "--json")
    assert answer.code == 0, answer.err
    assert answer.document["standing"] == "done"
    assert answer.document["answer"] == f"kill SIGKILL: rank 1 (pid {one.pid(1)})"
    one.next()
    assert one.reason() == (
        "rank_failed",
        f"rank 1 (local rank 1, pid {_pid(one, 1, 1)} on {HOST}) was killed by SIGKILL",
    )
    assert one.told(Fault("kill", rank=1))[0] == f"injection_began rank 1 ({HOST}): kill SIGKILL"

    fault = Fault("kill", rank=0, at="backward", step=40, signal=int(signal.SIGSEGV))
    one.watched.inject(fault)
    one.next()
    assert "rank 0" in one.reason()[1]
    assert "SIGSEGV" in one.reason()[1]
    assert one.told(fault)[1].endswith("the rank has ended")
    steps = [e["step"] for e in one.job.events("step", generation=2, rank=0)]
    assert steps[-1] >= 40, "not before the step that was asked for"

    for fault, word in (
        (Fault("exit", rank=1, at="optimizer", code=7), "code 7"),
        (Fault("raise", rank=0, at="forward"), "code 1"),
        (Fault("device-reset", rank=1, at="forward"), "code 1"),
        (Fault("memory", rank=0, at="forward"), "code 1"),
    ):
        one.watched.inject(fault)
        one.next()
        code, text = one.reason()
        assert code == "rank_failed"
        assert f"rank {fault.rank} " in text
        assert word in text
        one.told(fault)
    assert "MemoryError" in one.job.outputs()
    assert "the device was reset" in one.job.outputs()

    # What comes but once in a generation is armed for the next.
    early = Fault("kill", rank=0, at="rendezvous")
    one.watched.inject(early)
    one.watched.inject(Fault("kill", rank=1))
    wait_until("two generations", lambda: one.watched.look().state.generation >= one.generation + 2)
    assert one.told(early)[1].endswith("the rank has ended")
    one.generation += 1
    one.next()
    assert one.job.events("step", generation=one.generation - 1, rank=0) == []
    _end(one)


def test_what_lasts_is_undone(subject: Callable[..., Subject]) -> None:
    """A rank that is stopped, slow, asleep or holds a lock goes on after the duration: no generation ends for it."""
    one = subject("--allow-injection", PACE="0.01")
    for fault in (
        Fault("stop", rank=0, seconds=1.0),
        Fault("stop", rank=1, at="forward", seconds=0.7),
        Fault("sleep", rank=1, at="optimizer", seconds=0.6),
        Fault("lock", rank=0, at="forward", seconds=0.5),
    ):
        one.watched.inject(fault)
        began, ended = one.told(fault)
        assert began.startswith("injection_began")
        assert ended.startswith("injection_ended")
        least = fault.seconds * 0.9  # of a pause that is over with the next step, which comes after what is told
        wait_until(f"a pause of {fault}", lambda fault=fault, least=least: _longest_pause(one, fault.rank) >= least)
    slow = Fault("slow-step", rank=0, at="backward", delay=0.1, seconds=1.0)
    before = time.monotonic()
    one.watched.inject(slow)
    one.told(slow)
    late = [e for e in one.job.events("late", rank=0) if e["at"] == "backward" and e["t"] > before]
    assert 3 <= len([e for e in late if e["seconds"] >= slow.delay]) <= 11
    busy = Fault("slow-cpu", rank=1, share=0.2, period=0.2, seconds=2.0)
    one.watched.inject(busy)
    one.told(busy)
    assert psutil.Process(one.pid(1)).status() != psutil.STATUS_STOPPED
    held = Fault("memory", rank=1, at="forward", bytes=200 << 20, seconds=1.0)
    before = psutil.Process(one.pid(1)).memory_info().rss
    one.watched.inject(held)
    one.told(held)
    assert _most_memory(one.pid(1)) - before > 150 << 20
    wait_until("it is given back", lambda: psutil.Process(one.pid(1)).memory_info().rss - before < 100 << 20)
    _end(one, generations={1})


def test_a_rank_that_is_stopped_for_good_is_found(subject: Callable[..., Subject]) -> None:
    """And whom nobody is there to hit is told."""
    one = subject("--allow-injection")
    with pytest.raises(NoSuchJobError, match="has no rank 7"):
        one.watched.inject(Fault("kill", rank=7))
    with pytest.raises(NoSuchJobError, match="no node or host nowhere"):
        one.watched.inject(Fault("agent-kill", node="nowhere"))
    fault = Fault("stop", rank=1)
    one.watched.inject(fault)
    one.next()
    code, text = one.reason()
    assert code == "frozen"
    assert "rank 1" in text
    assert "SIGSTOP" in text
    one.told(fault)
    _end(one)


def test_an_agent_that_is_killed_or_frozen(job: MakeJob, etcd: str) -> None:
    """It tells of it before; a frozen one goes on after the duration."""
    common = ("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=inject-agents", "--start=exec")
    one = job(
        *common, *ENDLESS, "--nnodes=1:2", "--allow-injection", "--rdzv-conf=last_call_timeout=0.5", program=PROGRAM
    )
    one.agent()
    wait_until("the first leads", lambda: "leading" in one.agents[0].output())
    one.agent()
    with Watched("inject-agents", [etcd]) as watched:
        watched.until("both", lambda w: (plan := w.look().plan) is not None and len(plan.members) == 2)
        seen = watched.look()
        second = next(n.node_id for n in seen.nodes if n.pid == one.agents[1].pid)
        freeze = Fault("agent-freeze", node=second, seconds=1.0)
        watched.inject(freeze)
        watched.until("undone", lambda w: [e for e in w.events("injection_ended") if "agent-freeze" in e.text])
        began, ended = (watched.events(code)[-1] for code in ("injection_began", "injection_ended"))
        assert 0.8 <= ended.time - began.time < 10
        assert began.text == f"{HOST}: agent-freeze for 1 s"

        generation = watched.look().state.generation
        watched.inject(Fault("agent-kill", node=second))
        assert one.agents[1].wait() == -signal.SIGKILL
        assert watched.events("injection_began")[-1].text == f"{HOST}: agent-kill"
        after = watched.running(generation + 1)
        assert after.plan.reason.code == "node_lost"
        assert HOST in after.plan.reason.text
        one.finish()
    assert one.agents[0].wait() == 0


def test_a_port_goes_down_and_up(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    """In the tree that stands for sysfs, for the duration; elaunch tells of it. Without such a tree it is refused."""
    tree = LinkTree(tmp_path / "sysfs")
    port = tree.rdma("mlx5_0")
    tree.rdma("mlx5_1")
    common = ("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=inject-port", "--start=exec")
    one = job(*common, "--nic-policy=all", "--nproc-per-node=2", "--allow-injection", program=PROGRAM)
    one.agent(ELAUNCH_SYSFS_ROOT=str(tree.root))
    with Watched("inject-port", [etcd]) as watched:
        watched.running()
        with pytest.raises(CommandRefusedError, match="no port 'mlx5_7' below"):
            watched.inject(Fault("link-down", node=HOST, port="mlx5_7", seconds=1.0))
        fault = Fault("link-down", node=HOST, port="mlx5_0:1", seconds=5.0)
        watched.inject(fault)
        wait_until("it is down", lambda: (port / "state").read_text() == "1: DOWN\n")
        down = watched.until("it is told", lambda w: w.events("port_down"))
        assert down[0].text == f"port mlx5_0:1 of {HOST} (ranks 0-1) is down (Polling)"
        watched.until("it is up again", lambda w: w.events("port_up"), 60.0)
        assert (port / "state").read_text() == "4: ACTIVE\n"
        flap = Fault("link-flap", node=HOST, port="mlx5_0:1", seconds=2.0, period=0.6)
        with ThreadPoolExecutor(1) as aside:  # it may be over by the time that somebody has answered
            asked = aside.submit(watched.inject, flap)
            for state in ("1: DOWN\n", "4: ACTIVE\n"):
                wait_until(state, lambda state=state: (port / "state").read_text() == state)
            asked.result()
        watched.until("its end", lambda w: [e for e in w.events("injection_ended") if str(flap) in e.text])
        assert (port / "state").read_text() == "4: ACTIVE\n"
        one.finish()
    assert one.agents[0].wait() == 0
    assert {e["generation"] for e in one.events()} == {1}


def _pid(one: Subject, generation: int, rank: int) -> int:
    return int(one.job.events("start", generation=generation, rank=rank)[0]["pid"])


def _longest_pause(one: Subject, rank: int) -> float:
    times = [e["t"] for e in one.job.events("step", generation=one.generation, rank=rank)]
    return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


def _most_memory(pid: int) -> int:
    """Bytes that the process has had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) << 10


def _end(one: Subject, generations: set[int] | None = None) -> None:
    pids = [one.pid(0), one.pid(1)]
    one.job.finish()
    assert one.job.agents[0].wait() == 0, one.job.outputs()
    assert all(gone(pid) for pid in pids)
    if generations is not None:
        assert {e["generation"] for e in one.job.events()} == generations
