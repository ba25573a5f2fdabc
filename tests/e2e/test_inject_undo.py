"""What lasts is undone, whoever dies meanwhile: who asked for it, the agent, the process that holds it, the rank."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from elaunch.agent.holder import Holder
from elaunch.agent.trees import process
from elaunch.errors import CommandRefusedError
from elaunch.inject import Fault, holding
from tests.e2e.harness import ROOT, gone, wait_until
from tests.e2e.operating import elaunch
from tests.e2e.test_inject import HOST, Subject, _end, _longest_pause
from tests.e2e.test_inject import subject as subject
from tests.unit.topology.link_tree import LinkTree

pytestmark = pytest.mark.slow

ACTIVE, DOWN = "4: ACTIVE\n", "1: DOWN\n"
PATIENT = ("--allow-injection", "--hang-timeout=off", "--suspect-after=0")  # a rank that is stopped stays


def stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def asking(one: Subject, etcd: str, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "elaunch", "inject", one.watched.job, *words, f"--rdzv-endpoint={etcd}"]
    return subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def holder(one: Subject) -> psutil.Process:
    """It is started after the word that a fault is on its way."""

    def found() -> list[psutil.Process]:
        return [child for child in one.job.agents[0].children() if holding.__file__ in child.cmdline()]

    (only,) = wait_until("a holder", found)
    return only


def steps_on(one: Subject, rank: int) -> None:
    seen = len(one.job.events("step", rank=rank))
    wait_until(f"rank {rank} goes on", lambda: len(one.job.events("step", rank=rank)) > seen + 5)


def test_what_lasts_ends_though_whoever_asked_for_it_is_killed(
    subject: Callable[..., Subject], etcd: str, tmp_path: Path
) -> None:
    """A stopped and a slow rank, a port that is down, a frozen agent: each ends after its duration."""
    tree = LinkTree(tmp_path / "sysfs")
    state = tree.rdma("mlx5_0") / "state"
    one = subject(*PATIENT, PACE="0.01", ELAUNCH_SYSFS_ROOT=str(tree.root))
    port = ("--port=mlx5_0:1", f"--node={HOST}")
    faults = {
        Fault("stop", rank=0, seconds=2.0): ("stop", "--rank=0", "--duration=2"),
        Fault("slow-cpu", rank=1, seconds=2.0): ("slow-cpu", "--rank=1", "--duration=2"),
        Fault("link-down", node=HOST, port="mlx5_0:1", seconds=2.0): ("link-down", *port, "--duration=2"),
    }
    asked = [asking(one, etcd, *words) for words in faults.values()]
    wait_until("the port is down", lambda: state.read_text() == DOWN)  # it may be up before the others have begun
    wait_until("all have begun", lambda: len(one.watched.events("injection_began")) == len(faults))
    for client in asked:
        client.kill()
        client.communicate(timeout=20)
    for fault in faults:
        began, ended = (line for line in events(one, fault))
        assert 1.9 <= ended.time - began.time < 15, fault
    assert not stopped(one.pid(0))
    assert not stopped(one.pid(1))
    assert state.read_text() == ACTIVE

    freeze = Fault("agent-freeze", node=HOST, seconds=1.5)
    client = asking(one, etcd, "agent-freeze", f"--node={HOST}", "--duration=1.5")
    wait_until("it is frozen", lambda: stopped(one.job.agents[0].pid))
    client.kill()
    client.communicate(timeout=20)
    events(one, freeze)
    assert not stopped(one.job.agents[0].pid)
    steps_on(one, 0)
    steps_on(one, 1)
    _end(one, generations={1})


def events(one: Subject, fault: Fault) -> list[Any]:
    """Begin and end of a fault, once it is over."""
    one.told(fault)
    return [line for line in one.watched.events("injection_began", "injection_ended") if str(fault) in line.text]


def test_whoever_is_interrupted_while_he_asks_says_so_in_a_word(subject: Callable[..., Subject], etcd: str) -> None:
    """Ctrl-C ends the command; a fault that has been asked for comes and ends as it was asked for."""
    one = subject(*PATIENT)
    agent = one.job.agents[0]
    agent.kill(signal.SIGSTOP)  # nobody answers
    client = asking(one, etcd, "stop", "--rank=1", "--duration=1", "--timeout=60")
    try:
        wait_until("it is asked", lambda: one.watched.look().operations)
        client.send_signal(signal.SIGINT)
        out, err = client.communicate(timeout=20)
    finally:
        agent.kill(signal.SIGCONT)
    assert client.returncode == 130
    assert "Traceback" not in out + err
    one.told(Fault("stop", rank=1, seconds=1.0))
    assert not stopped(one.pid(1))
    _end(one, generations={1})


def test_what_a_killed_agent_held_is_undone_or_gone(subject: Callable[..., Subject], tmp_path: Path) -> None:
    """Its ranks end with it, stopped or not; the port is as it was; the process that held them is gone."""
    tree = LinkTree(tmp_path / "sysfs")
    state = tree.rdma("mlx5_0") / "state"
    one = subject(*PATIENT, ELAUNCH_SYSFS_ROOT=str(tree.root))
    one.watched.inject(Fault("stop", rank=0, seconds=600.0))
    one.watched.inject(Fault("slow-cpu", rank=1, share=0.2, seconds=600.0))
    one.watched.inject(Fault("link-down", node=HOST, port="mlx5_0:1", seconds=600.0))
    wait_until("it is down", lambda: state.read_text() == DOWN)
    wait_until("it is stopped", lambda: stopped(one.pid(0)))
    beside, ranks = holder(one), [one.pid(0), one.pid(1)]
    one.job.agents[0].kill()
    assert one.job.agents[0].wait() == -signal.SIGKILL
    wait_until("its ranks are gone", lambda: all(gone(pid) for pid in ranks))
    wait_until("the holder is gone", lambda: gone(beside.pid))
    assert state.read_text() == ACTIVE


def test_what_a_killed_holder_has_left_is_undone_by_the_agent(subject: Callable[..., Subject], tmp_path: Path) -> None:
    """And what comes after finds another one."""
    tree = LinkTree(tmp_path / "sysfs")
    state = tree.rdma("mlx5_0") / "state"
    one = subject(*PATIENT, ELAUNCH_SYSFS_ROOT=str(tree.root))
    stop, down = Fault("stop", rank=1), Fault("link-down", node=HOST, port="mlx5_0:1")
    one.watched.inject(stop)
    one.watched.inject(down)
    wait_until("it is stopped", lambda: stopped(one.pid(1)))
    wait_until("it is down", lambda: state.read_text() == DOWN)
    holder(one).kill()
    one.told(stop)
    one.told(down)
    assert not stopped(one.pid(1))
    assert state.read_text() == ACTIVE
    again = Fault("stop", rank=1, seconds=0.5)
    one.watched.inject(again)
    one.told(again)
    steps_on(one, 1)
    _end(one, generations={1})


def test_two_faults_at_once_do_not_undo_each_other(subject: Callable[..., Subject], tmp_path: Path) -> None:
    """A rank that is stopped, a port that is down, remains so while a shorter fault ends; with the last it goes on."""
    tree = LinkTree(tmp_path / "sysfs")
    state = tree.rdma("mlx5_0") / "state"
    one = subject(*PATIENT, PACE="0.01", ELAUNCH_SYSFS_ROOT=str(tree.root))
    slow, stop = Fault("slow-cpu", rank=1, share=0.5, seconds=1.0), Fault("stop", rank=1, seconds=6.0)
    flap = Fault("link-flap", node=HOST, port="mlx5_0:1", seconds=1.0)
    down = Fault("link-down", node=HOST, port="mlx5_0:1", seconds=6.0)
    one.watched.inject(slow)
    one.watched.inject(flap)
    one.watched.inject(stop)
    one.watched.inject(down)
    one.told(slow)
    one.told(flap)
    assert len(one.watched.events("injection_ended")) == 2
    assert stopped(one.pid(1))
    assert state.read_text() == DOWN
    one.told(stop)
    one.told(down)
    wait_until("not one step before its end", lambda: _longest_pause(one, 1) >= stop.seconds * 0.9)
    assert state.read_text() == ACTIVE
    steps_on(one, 1)

    inside = Fault("stop", rank=1, at="forward", seconds=0.5)  # the rank's own, while another has it in pulses
    slow = Fault("slow-cpu", rank=1, share=0.5, seconds=1.5)
    one.watched.inject(slow)
    one.watched.inject(inside)
    one.told(inside)
    one.told(slow)
    steps_on(one, 1)
    _end(one, generations={1})


def test_a_job_that_ends_takes_along_what_is_armed_and_what_lasts(subject: Callable[..., Subject]) -> None:
    """Nothing waits for a point that nobody comes to; a rank that is slow for good comes to its end."""
    one = subject(*PATIENT)
    one.watched.inject(Fault("kill", rank=0, at="backward", step=10**9))
    one.watched.inject(Fault("slow-cpu", rank=1, share=0.5))
    beside = holder(one)
    _end(one, generations={1})
    assert gone(beside.pid)


def test_an_operator_undoes_what_lasts_and_what_is_armed(
    subject: Callable[..., Subject], etcd: str, tmp_path: Path
) -> None:
    """Of a rank, or of a node with its port; what has not begun does not come any more. No generation ends for it."""
    tree = LinkTree(tmp_path / "sysfs")
    state = tree.rdma("mlx5_0") / "state"
    one = subject(*PATIENT, PACE="0.01", ELAUNCH_SYSFS_ROOT=str(tree.root))
    undo = Fault("undo", rank=1)
    for fault in (
        Fault("stop", rank=1),
        Fault("stop", rank=1, at="forward"),
        Fault("sleep", rank=1, at="backward"),
        Fault("slow-step", rank=1, at="optimizer", delay=0.2),
        Fault("memory", rank=1, at="forward", bytes=1 << 20),
    ):
        one.watched.inject(fault)
        wait_until(f"{fault} has begun", lambda fault=fault: any(str(fault) in text for text in began(one)))
        one.watched.inject(undo)
        assert one.told(fault)[-1].endswith(": undone"), fault
        steps_on(one, 1)

    for ahead in (1, 2, 3) * 4:  # undone just as it fires
        step = one.job.events("step", rank=1)[-1]["step"] + ahead
        one.watched.inject(Fault("stop", rank=1, at="step", step=step))
        with suppress(CommandRefusedError):
            one.watched.inject(undo)
        steps_on(one, 1)

    never = Fault("kill", rank=1, at="ddp")
    one.watched.inject(never)
    answer = elaunch("inject", one.watched.job, "undo", "--rank=1", f"--rdzv-endpoint={etcd}", "--json")
    assert (answer.code, answer.document["answer"]) == (0, f"undone: {never}"), answer.err
    wait_until("it is told", lambda: any(str(never) in line.text for line in one.watched.events("injection_ended")))
    assert not any(str(never) in text for text in began(one))

    more = len(one.watched.events("injection_ended")) - len(began(one))
    one.watched.inject(Fault("link-down", node=HOST, port="mlx5_0:1"))
    one.watched.inject(Fault("stop", rank=0))
    one.watched.inject(Fault("raise", rank=1, at="forward", step=10**9))
    wait_until("all are there", lambda: state.read_text() == DOWN and stopped(one.pid(0)))
    one.watched.inject(Fault("undo", node=HOST))
    wait_until("the port is up", lambda: state.read_text() == ACTIVE)
    steps_on(one, 0)
    # The error has an end too, though it never began.
    wait_until("all ends are told", lambda: len(one.watched.events("injection_ended")) == len(began(one)) + more + 1)

    with pytest.raises(CommandRefusedError, match="there is nothing to undo"):
        one.watched.inject(undo)
    lock = Fault("lock", rank=1, at="forward")
    one.watched.inject(lock)
    wait_until("it has begun", lambda: any(str(lock) in text for text in began(one)))
    with pytest.raises(CommandRefusedError, match="of rank 1 has begun, and ends with it only"):
        one.watched.inject(undo)
    assert {e["generation"] for e in one.job.events("start")} == {1}
    one.watched.command("abort")
    assert one.job.agents[0].wait() == 94


def began(one: Subject) -> list[str]:
    return [line.text for line in one.watched.events("injection_began")]


def test_what_is_undone_while_a_generation_begins_does_not_come(subject: Callable[..., Subject]) -> None:
    one = subject(*PATIENT)
    fault = Fault("sleep", rank=1, at="rendezvous")
    one.watched.inject(fault)
    one.watched.inject(Fault("undo", rank=1))
    os.kill(one.pid(0), signal.SIGKILL)
    one.next()
    assert len(wait_until("its end is told", lambda: one.watched.events("injection_ended"))) == 1
    assert not began(one)
    _end(one, generations={1, 2})


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield made
    for one in made:
        one.kill()
        one.wait(10)


def wish(number: int, held: subprocess.Popen[bytes], **more: Any) -> dict[str, Any]:
    found = process(held.pid)
    assert found is not None
    return {"id": number, "pids": [[held.pid, found.started]], "seconds": 0, **more}


class Beside:
    """The holder by itself."""

    def __init__(self) -> None:
        argv = [sys.executable, "-S", "-E", holding.__file__]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, **values: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(values) + "\n")
        self.process.stdin.flush()

    def next(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def beside() -> Iterator[Beside]:
    made = Beside()
    with made.process:
        yield made
        made.process.kill()


def test_a_hold_that_is_cancelled_is_undone_though_its_process_is_killed(
    sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """And another hold of the same file, begun meanwhile, leaves what was there before both."""
    state = tmp_path / "state"
    state.write_text(ACTIVE)

    async def held(of: Holder, seconds: float) -> None:
        process_wish = wish(0, sleepers[0], seconds=seconds, files=[[str(state), DOWN, state.read_text()]])
        await of.hold(process_wish)

    async def cancelled_and_held_again() -> None:
        holder = Holder(lambda _: None)
        first = asyncio.create_task(held(holder, 0))
        await asyncio.to_thread(wait_until, "it is down", lambda: state.read_text() == DOWN)
        first.cancel()
        again = asyncio.create_task(held(holder, 0.3))
        await asyncio.wait([first, again])
        assert state.read_text() == ACTIVE
        assert not stopped(sleepers[0].pid)
        await holder.close()

    async def cancelled_and_killed() -> None:
        pids: list[int] = []
        holder = Holder(pids.append)
        first = asyncio.create_task(held(holder, 0))
        await asyncio.to_thread(wait_until, "it is stopped", lambda: stopped(sleepers[0].pid))
        os.kill(pids[0], signal.SIGSTOP)  # it does not come to the undoing
        first.cancel()
        await asyncio.wait([first])
        os.kill(pids[0], signal.SIGKILL)
        await asyncio.to_thread(wait_until, "it goes on", lambda: not stopped(sleepers[0].pid))
        assert state.read_text() == ACTIVE
        await holder.close()

    asyncio.run(cancelled_and_held_again())
    asyncio.run(cancelled_and_killed())


@pytest.mark.parametrize("end", ["input", "signal"])
def test_the_holder_lets_go_of_everything_at_its_end(
    sleepers: list[subprocess.Popen[bytes]], beside: Beside, tmp_path: Path, end: str
) -> None:
    """When its standard input ends, which is when its agent is gone, and when it is told to end."""
    changed = tmp_path / "state"
    changed.write_text(ACTIVE)
    beside.say(**wish(1, sleepers[0], files=[[str(changed), DOWN, ACTIVE]]))
    beside.say(**wish(2, sleepers[1], share=0.01, period=60))
    for one in sleepers:
        wait_until("stopped", lambda one=one: stopped(one.pid))
    wait_until("changed", lambda: changed.read_text() == DOWN)
    beside.process.stdin.close() if end == "input" else beside.process.terminate()  # type: ignore[union-attr]
    assert beside.process.wait(10) == 0
    assert not any(stopped(one.pid) for one in sleepers)
    assert changed.read_text() == ACTIVE
    assert list(tmp_path.iterdir()) == [changed]


def test_the_holder_keeps_holds_apart(sleepers: list[subprocess.Popen[bytes]], beside: Beside) -> None:
    """Each ends by itself, after its time, undone, or with its process; the others stay."""
    first, second = sleepers
    beside.say(**wish(1, first))
    beside.say(**wish(2, first, seconds=0.3))
    beside.say(**wish(3, second))
    assert beside.next() == "over 2\n"
    assert stopped(first.pid)
    beside.say(id=1, undo=True)
    assert beside.next() == "over 1\n"
    assert not stopped(first.pid)
    assert stopped(second.pid)
    second.kill()
    assert beside.next() == "over 3\n"
    gone_before = subprocess.Popen(["true"])
    gone_before.wait(10)
    beside.say(id=4, pids=[[gone_before.pid, 1]], seconds=0)
    assert beside.next() == "over 4\n"
    beside.say(**wish(5, first, share=0.5, period=0.1))
    for state in (True, False, True):
        wait_until(f"stopped: {state}", lambda state=state: stopped(first.pid) == state)
    beside.say(id=5, undo=True)
    assert beside.next() == "over 5\n"
    assert not stopped(first.pid)
