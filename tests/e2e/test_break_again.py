"""Jobs that are started again under their id at once, and what an agent leaves behind that was killed."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Phase, Reason, encode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Put
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Agent, Job, wait_until
from tests.e2e.test_launch import free_port
from tests.etcd.running import opened, run

pytestmark = [pytest.mark.slow]

SIGNALLED = (str(PROGRAMS / "signalled.py"),)
QUICK = "--rdzv-conf=last_call_timeout=0.2,lease_ttl=3"


def test_an_embedded_job_again_and_again_under_one_id(job: MakeJob, tmp_path: Path) -> None:
    """Also where the last run saw more of etcd's revisions than the next: their numbers begin anew."""
    seen: list[int] = []
    where = ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=again")
    for ends in ("killed", "well", "killed by force", "well"):
        one = job("--nnodes=1:2", QUICK, "--start=exec", *where, program=SIGNALLED)
        agent = one.agent()
        started = wait_until("a start", lambda one=one: one.events("start"))  # type: ignore[misc]
        if ends == "killed":
            one.agent()
            wait_until("the second node", lambda one=one: len(one.events("start")) >= 3)  # type: ignore[misc]
            signalled(one, signal.SIGKILL)
            assert [a.wait() for a in one.agents] == [137, 137], one.outputs()
        elif ends == "well":
            one.finish()
            assert agent.wait() == 0, agent.output()
        else:
            for process in one.living():
                with suppress(psutil.NoSuchProcess):  # it ended with one of those before it
                    process.kill()
            agent.wait()
        generations = {e["generation"] for e in one.events()}
        assert not seen or min(generations) > max(seen), (ends, seen, generations, started)
        seen += generations


def signalled(one: Job, signum: signal.Signals) -> None:
    os.kill(one.events("start")[-1]["pid"], signum)


def test_a_node_that_finds_its_job_ended_is_told_so_by_itself(job: MakeJob, etcd: str) -> None:
    """The leader wrote the end and died: the last node is elected, and nobody else is there to tell it."""
    keys = JobKeys("told")

    async def seed() -> None:
        async with opened(etcd) as store:
            ended = State(
                generation=7, phase=Phase.FAILED, restart_count=0, reason=Reason("x", "y"), exit_code=9, horizon=1 << 40
            )
            await store.txn([], [Put(keys.state, encode(ended))])

    run(seed())
    one = job("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=told", program=SIGNALLED)
    agent = one.agent("--start=exec")
    assert agent.wait(60) == 9, agent.output()
    assert not one.events()


def test_a_killed_agent_leaves_no_temporary_folder(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    one = job("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=tidy", program=SIGNALLED)
    agent = one.agent("--start=exec", QUICK)
    wait_until("the rank", lambda: one.events("ready"))
    assert list(tmp_path.glob("elaunch*"))
    agent.kill()
    agent.process.wait()
    wait_until("its folders gone", lambda: not list(tmp_path.glob("elaunch*")))


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.3])
def test_an_early_interrupt_prints_no_traceback(job: MakeJob, etcd: str, tmp_path: Path, delay: float) -> None:
    """From when the command has begun: earlier it may hit the interpreter's own start."""
    one = job("--nnodes=1", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id=int{delay}")
    agent = one.agent("--start=exec", program=SIGNALLED)
    wait_until("the command begins", lambda: begun(agent) or list(tmp_path.glob("elaunch-*")))
    time.sleep(delay)
    agent.kill(signal.SIGINT)
    assert agent.wait() in (130, -2), agent.output()
    assert "Traceback" not in agent.output()


def begun(agent: Agent) -> bool:
    """Whether the command has taken Python's handler of SIGINT away. Python ignores SIGPIPE just before it has one."""
    for _ in range(2):
        told = dict(re.findall(r"(Sig\w+):\t(\w+)", Path(f"/proc/{agent.pid}/status").read_text()))
        ignored, caught = int(told["SigIgn"], 16), int(told["SigCgt"], 16)
        if not ignored & 1 << signal.SIGPIPE - 1 or caught & 1 << signal.SIGINT - 1:
            return False
        time.sleep(0.005)
    return True


def test_an_etcd_that_froze_is_not_left_behind(job: MakeJob) -> None:
    one = job("--standalone", "--rdzv-conf=lease_ttl=2,etcd_timeout=1", "--start=exec", program=SIGNALLED)
    agent = one.agent()
    wait_until("a start", lambda: one.events("start"))
    (etcd,) = [p for p in agent.children() if "--data-dir" in p.cmdline()]
    etcd.suspend()
    assert agent.wait() == 69, agent.output()
    wait_until("nothing is left", lambda: not one.living())
