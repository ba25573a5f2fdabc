"""How a job ends: exit codes, reports, signals, stubborn processes, two jobs side by side."""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, gone, wait_until
from tests.e2e.test_launch import free_port

pytestmark = [pytest.mark.slow, pytest.mark.torch]

SIGNALLED = (str(PROGRAMS / "signalled.py"),)


def test_an_exception_gives_its_traceback_and_its_exit_code(job: MakeJob, tmp_path: Path) -> None:
    one = job("--nproc-per-node=2", "--max-restarts=1", f"--log-dir={tmp_path}/logs")
    one.fault("between_steps", 1, 1, "raise")
    own = tmp_path / "own_error.json"
    agent = one.agent(TORCHELASTIC_ERROR_FILE=str(own))
    one.fault_after_start("between_steps", 1, 2, "raise")
    assert agent.wait() == 1, agent.output()
    out = agent.output()
    assert "Root Cause (first observed failure)" in out
    assert "RuntimeError: asked to fail at between_steps" in out
    assert "steps.py" in out
    assert "rank      : 1 (local_rank: 1)" in out
    assert {e["generation"] for e in one.events()} == {1, 2}
    copied = json.loads(own.read_text())["message"]
    assert copied["message"] == "RuntimeError: asked to fail at between_steps"
    assert copied["errorCode"] == 1


def test_a_rank_that_exits_with_3_ends_the_job_with_3(job: MakeJob) -> None:
    one = job("--nproc-per-node=2")
    one.fault("before_init", 1, 1, "exit")
    agent = one.agent()
    assert agent.wait() == 3, agent.output()
    assert {e["generation"] for e in one.events()} == {1}
    assert "exitcode  : 3" in agent.output()


def test_both_nodes_end_with_the_code_of_the_first_failure(job: MakeJob, etcd: str) -> None:
    two = job("--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=both")
    two.fault("between_steps", 0, 1, signal.SIGKILL)
    agents = [two.agent(), two.agent()]
    assert [agent.wait() for agent in agents] == [137, 137], two.outputs()
    for agent in agents:
        root = agent.output().split("Root Cause")[1]
        assert "rank      : 0 (local_rank: 0)" in root
        assert "SIGKILL" in root
        assert agent.output().count("job_failed") == 1


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_signal_reaches_the_ranks_and_stops_the_job(job: MakeJob, signum: int, code: int) -> None:
    one = job("--nproc-per-node=2", "--max-restarts=3", program=SIGNALLED, env={"MODE": "polite"})
    agent = one.agent("--start=exec")
    wait_until("both ranks", lambda: len(one.events("start")) == 2)
    agent.kill(signum)
    assert agent.wait() == code, agent.output()
    assert sorted((e["rank"], e["signal"]) for e in one.events("signal")) == [(0, signum), (1, signum)]
    assert {e["generation"] for e in one.events()} == {1}
    assert "Traceback" not in agent.output()
    assert f"reason=stopped by {signal.Signals(signum).name})" in agent.output(), agent.output()


def test_sigusr1_goes_to_the_ranks_and_the_job_goes_on(job: MakeJob) -> None:
    one = job("--nproc-per-node=2", program=SIGNALLED, env={"MODE": "polite"})
    agent = one.agent("--start=exec")
    wait_until("both ranks", lambda: len(one.events("start")) == 2)
    agent.kill(signal.SIGUSR1)
    wait_until("both ranks have it", lambda: len(one.events("signal", signal=int(signal.SIGUSR1))) == 2)
    one.finish()
    assert agent.wait() == 0, agent.output()


def test_an_ignored_sighup_stays_ignored(job: MakeJob) -> None:
    one = job("--nproc-per-node=1", program=SIGNALLED, env={"MODE": "polite"})
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        agent = one.agent("--start=exec")
    finally:
        signal.signal(signal.SIGHUP, previous)
    wait_until("the rank", lambda: one.events("start"))
    agent.kill(signal.SIGHUP)
    agent.kill(signal.SIGUSR1)  # delivered after it, so once this one is there the first has been ignored
    wait_until("the rank has the second signal", lambda: one.events("signal", signal=int(signal.SIGUSR1)))
    assert not one.events("signal", signal=int(signal.SIGHUP))
    one.finish()
    assert agent.wait() == 0, agent.output()


@pytest.mark.parametrize("mode", ["deaf", "grandchild"])
def test_what_ignores_sigterm_is_gone_within_the_grace_period(job: MakeJob, mode: str) -> None:
    one = job("--nproc-per-node=1", "--shutdown-timeout=2", program=SIGNALLED, env={"MODE": mode})
    agent = one.agent("--start=exec")
    started = wait_until("its processes", lambda: one.events("ready"))[0]
    asked = time.monotonic()
    agent.kill(signal.SIGTERM)
    assert agent.wait() == 143, agent.output()
    assert time.monotonic() - asked < 2 + 10, "of 30, which it has where nothing is said"
    assert all(gone(pid) for pid in started["pids"]), started


def test_a_killed_agent_takes_its_stubborn_processes_along(job: MakeJob) -> None:
    one = job("--nproc-per-node=1", program=SIGNALLED, env={"MODE": "grandchild"})
    agent = one.agent("--start=exec")
    started = wait_until("its processes", lambda: one.events("ready"))[0]
    agent.kill()
    agent.wait()
    wait_until("all of it gone", lambda: all(gone(pid) for pid in started["pids"]), 5.0)


def test_two_jobs_on_one_etcd_do_not_see_each_other(job: MakeJob, etcd: str) -> None:
    jobs: list[Job] = [
        job("--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", "--max-restarts=1")
        for name in ("left/right", "left")
    ]
    agents = [one.agent() for one in jobs for _ in range(2)]
    for one in jobs:
        one.steps_in(1, 2)
    jobs[0].fault("between_steps", 0, 1)
    jobs[0].steps_in(2, 2)
    assert {e["generation"] for e in jobs[1].events()} == {1}
    for one in jobs:
        one.finish()
    assert [agent.wait() for agent in agents] == [0, 0, 0, 0]


def test_the_loss_of_an_embedded_etcd_with_its_node_says_what_to_do(job: MakeJob) -> None:
    port = free_port()
    two = job(
        "--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=lost",
        "--rdzv-conf=lease_ttl=4,etcd_timeout=2",
    )  # fmt: skip
    agents = [two.agent(), two.agent()]
    two.steps_in(1, 2)
    etcd = [p for p in two.living() if p.name() == "etcd" or "keeper" in " ".join(p.cmdline())]
    assert etcd
    for process in etcd:
        with suppress(psutil.NoSuchProcess):  # it ended with the one before it
            process.kill()
    agents[0].kill()
    agents[0].wait()
    assert agents[1].wait() == 69, two.outputs()
    assert "--rdzv-backend=etcd" in agents[1].output().strip().splitlines()[-1]


def test_an_agent_killed_leaves_its_embedded_etcd_to_the_others(job: MakeJob) -> None:
    port = free_port()
    two = job("--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=left")
    first = two.agent()
    wait_until("the first agent leads", lambda: "leading" in first.output())
    second = two.agent()
    two.steps_in(1, 2)
    first.kill()
    first.wait()
    two.steps_in(2, 1)
    two.finish()
    assert second.wait() == 0, two.outputs()


def test_a_second_node_that_does_not_fit_is_told_why(job: MakeJob, etcd: str) -> None:
    two = job("--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=fit", program=SIGNALLED)
    first = two.agent("--start=exec")
    wait_until("the first agent leads", lambda: "leading" in first.output())
    for options, program, shown in (
        (("--nproc-per-node=3",), None, ("3", "1", "--nproc-per-node")),
        ((), [str(PROGRAMS / "steps.py")], ("steps.py", "signalled.py")),
    ):
        other = two.agent("--start=exec", *options, program=program)
        assert other.wait() == 2, other.output()
        last = other.output().strip().splitlines()[-1]
        assert all(word in last for word in shown), last
    first.kill(signal.SIGTERM)  # waiting for other nodes is no reason to hang
    assert first.wait(60) == 143


def test_an_etcd_that_does_not_answer_and_a_port_that_is_taken(job: MakeJob) -> None:
    import socket

    one = job("--nnodes=1:2", "--rdzv-id=x", program=SIGNALLED)
    port = free_port()
    absent = one.agent("--rdzv-backend=etcd", f"--rdzv-endpoint=127.0.0.1:{port}", "--start=exec")
    assert absent.wait(60) == 2, absent.output()
    line = absent.output().strip().splitlines()[-1]
    assert f"127.0.0.1:{port}" in line
    assert re.search(r"within \d+ s: nothing listens there; check --rdzv-endpoint", line), line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = one.agent("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--start=exec")
        assert refused.wait(60) == 2, refused.output()
        assert f"{port}" in refused.output().strip().splitlines()[-1]
    assert not one.events()
