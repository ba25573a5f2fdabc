"""Starting, watching and stopping ranks, and the dead-man's switch: real processes, no torch but for the store."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from elaunch.agent import trees
from elaunch.agent.awake import keep_awake
from elaunch.agent.spawner import STORE
from elaunch.clock import boottime
from elaunch.errors import StartError
from tests.e2e.spawning import PROGRAMS, ROOT, Bench, environment, other_children, python

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def bench() -> Iterator[Bench]:
    others = other_children()
    made = Bench("exec")
    yield made
    made.close()
    assert trees.descendants(os.getpid(), trees.snapshot(), spare=others) == []


def gone(pid: int) -> bool:
    now = trees.process(pid)
    return now is None or now.zombie


def eventually(true: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
    return value


def words(path: Path, count: int) -> list[str]:
    return eventually(lambda: found if len(found := path.read_text().split()) >= count else None)


def grandchild_in(path: Path) -> int:
    """The pid that clinging.py tells of its grandchild, once both are up."""
    told = words(path, 4)
    return int(told[told.index("grandchild") + 1])


def inline(text: str, *args: str) -> Any:
    return python("module", "tests.programs.inline", text, *args)


def test_exits_come_with_code_pid_and_time(bench: Bench, tmp_path: Path) -> None:
    before = time.time()
    pids = bench.start([inline("import sys; sys.exit(3)"), inline("import os; os.kill(os.getpid(), 9)")], tmp_path)
    ends = {end.local_rank: end for end in (bench.exit(), bench.exit())}
    assert {end.start for end in ends.values()} == {7}
    assert {rank: end.pid for rank, end in ends.items()} == pids
    assert {rank: end.exit_code for rank, end in ends.items()} == {0: 3, 1: -9}
    assert all(before <= end.time <= time.time() for end in ends.values())


def test_output_goes_where_it_was_sent(bench: Bench, tmp_path: Path) -> None:
    (result,) = bench.run([inline("import sys; print('out'); print('err', file=sys.stderr)")], tmp_path)
    assert (result.out, result.err) == ("out\n", "err\n")


def test_a_generation_starts_only_when_the_one_before_is_gone(bench: Bench, tmp_path: Path) -> None:
    bench.start([inline(SLEEP)], tmp_path)
    with pytest.raises(StartError, match="are not gone yet"):
        bench.start([inline(SLEEP)], tmp_path)
    bench.stop()
    bench.start([inline(SLEEP)], tmp_path)
    bench.stop()


def test_a_file_that_cannot_be_written_fails_the_start(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "1.out").mkdir()
    with pytest.raises(StartError, match=r"Is a directory: .*1\.out"):
        bench.start([inline(SLEEP), inline(SLEEP)], tmp_path)
    bench.stop()


def test_a_signal_reaches_every_rank(bench: Bench, tmp_path: Path) -> None:
    text = "import signal; signal.signal(10, lambda *_: exit(7)); print('up', flush=True); signal.pause()"
    bench.start([inline(text)] * 2, tmp_path)
    for n in range(2):
        words(tmp_path / f"{n}.out", 1)
    bench.do(bench.spawner.signal(signal.SIGUSR1))
    assert [bench.exit().exit_code, bench.exit().exit_code] == [7, 7]


def test_stop_is_polite_first(bench: Bench, tmp_path: Path) -> None:
    text = "import signal; signal.signal(15, lambda *_: exit(9)); print('up', flush=True); signal.pause()"
    bench.start([inline(text)], tmp_path)
    words(tmp_path / "0.out", 1)
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=30))
    assert bench.exit().exit_code == 9


def test_a_stubborn_tree_is_gone_after_the_grace(bench: Bench, tmp_path: Path) -> None:
    bench.start([python("script", PROGRAMS / "clinging.py", "stay")], tmp_path)
    pids = [int(word) for word in words(tmp_path / "0.out", 4) if word.isdigit()]
    begun = time.monotonic()
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=0.5))
    assert 0.5 <= time.monotonic() - begun < 10
    assert all(gone(pid) for pid in pids)
    assert bench.exit().exit_code == -signal.SIGKILL


@pytest.mark.parametrize("code", ["0", "1"])
def test_what_a_rank_left_behind_is_cleaned_up(code: str, bench: Bench, tmp_path: Path) -> None:
    bench.start([python("script", PROGRAMS / "clinging.py", code)], tmp_path)
    assert bench.exit().exit_code == int(code)
    grandchild = grandchild_in(tmp_path / "0.out")
    assert not gone(grandchild)
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=0.2))
    assert gone(grandchild)


def test_a_stopped_rank_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    pids = bench.start([inline(SLEEP)], tmp_path)
    words(tmp_path / "0.out", 1)
    os.kill(pids[0], signal.SIGSTOP)
    eventually(lambda: (p := trees.process(pids[0])) and p.stopped)
    begun = time.monotonic()
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=30))
    assert time.monotonic() - begun < 20
    assert bench.exit().exit_code == -signal.SIGKILL


def test_a_second_stop_shortens_the_first(bench: Bench, tmp_path: Path) -> None:
    bench.start([python("script", PROGRAMS / "clinging.py", "stay")], tmp_path)
    words(tmp_path / "0.out", 4)

    async def both() -> None:
        stop = bench.spawner.stop
        await asyncio.gather(stop(signum=signal.SIGTERM, grace=50), stop(signum=signal.SIGTERM, grace=0.1))

    bench.do(both())


def test_signals_to_a_whole_job_step_are_left_to_the_agent(bench: Bench, tmp_path: Path) -> None:
    bench.start([inline(SLEEP)], tmp_path)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(bench.spawner.pid, signum)
    bench.do(bench.spawner.signal(signal.SIGKILL))
    assert bench.exit().exit_code == -signal.SIGKILL


def test_a_killed_spawner_takes_its_ranks_along(tmp_path: Path) -> None:
    bench = Bench("exec")
    other = subprocess.Popen(["sleep", "600"])
    others = (*other_children(), other.pid)
    bench.spawner._process._spare = lambda: others
    pids = bench.start([inline(SLEEP), python("script", PROGRAMS / "clinging.py", "stay")], tmp_path)
    grandchild = grandchild_in(tmp_path / "1.out")
    os.kill(bench.spawner.pid, signal.SIGKILL)
    bench.do(bench.spawner.lost.wait())
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=5))
    assert all(gone(pid) for pid in (*pids.values(), grandchild))
    with pytest.raises(StartError, match="has died"):
        bench.start([inline(SLEEP)], tmp_path)
    assert other.poll() is None
    other.kill()
    other.wait()
    bench.close()


def freeze(bench: Bench) -> None:
    os.kill(bench.spawner.pid, signal.SIGSTOP)
    eventually(lambda: (p := trees.process(bench.spawner.pid)) and p.stopped)


def test_a_frozen_spawner_is_woken_to_stop_its_ranks_politely(bench: Bench, tmp_path: Path) -> None:
    text = "import signal; signal.signal(15, lambda *_: exit(9)); print('up', flush=True); signal.pause()"
    bench.start([inline(text)], tmp_path)
    words(tmp_path / "0.out", 1)
    freeze(bench)
    begun = time.monotonic()
    bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=30))
    assert time.monotonic() - begun < 15
    assert bench.exit().exit_code == 9
    freeze(bench)
    begun = time.monotonic()
    bench.do(bench.spawner.close())
    assert time.monotonic() - begun < 15


def test_a_spawner_that_is_stopped_is_woken_and_exits_are_heard(bench: Bench, tmp_path: Path) -> None:
    pids = bench.start([inline(SLEEP)], tmp_path)
    freeze(bench)
    os.kill(pids[0], signal.SIGKILL)

    async def exit_code() -> int:
        awake = asyncio.create_task(keep_awake(lambda: bench.spawner, look=0.05))
        end = await bench.spawner.exits().get()
        awake.cancel()
        return end.exit_code

    assert bench.do(exit_code()) == -signal.SIGKILL


@pytest.mark.parametrize("how", ["stop", "close"])
def test_a_spawner_that_is_held_is_killed_after_the_grace_and_its_ranks_with_it(
    how: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elaunch.agent.process.SpawnerProcess.wake", lambda _: None)  # as if a debugger held it
    pids = bench.start([inline(SLEEP)], tmp_path)
    freeze(bench)
    begun = time.monotonic()
    if how == "stop":
        bench.do(bench.spawner.stop(signum=signal.SIGTERM, grace=0.5))
    else:
        bench.do(bench.spawner.close())
    assert time.monotonic() - begun < 15
    assert gone(pids[0])


def test_a_start_after_the_deadline_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.page.set(boottime() - 1)
    with pytest.raises(StartError, match="deadline of the lease has passed"):
        bench.start([inline(SLEEP)], tmp_path)
    bench.page.clear()
    bench.start([inline(SLEEP)], tmp_path)
    bench.stop()


class LoneAgent:
    """An agent in a process of its own, so that it can be frozen and killed."""

    def __init__(self, folder: Path, lease: float, *commands: str, under: Sequence[str] = ()) -> None:
        argv = [*under, sys.executable, "-m", "tests.programs.lone_agent", str(folder), str(lease)]
        self.process = subprocess.Popen(
            [*argv, *" -- ".join(commands).split()], env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.out = self.process.stdout
        told = json.loads(self.out.readline())
        self.spawner: int = told["spawner"]
        self.ranks: list[int] = told["ranks"]

    def __enter__(self) -> LoneAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.out.close()


def test_a_killed_agent_takes_everything_along(tmp_path: Path) -> None:
    with LoneAgent(tmp_path, 0, f"{sys.executable} {PROGRAMS}/clinging.py stay", "sleep 600") as agent:
        grandchild = grandchild_in(tmp_path / "0.out")
        agent.process.kill()
        eventually(lambda: all(gone(pid) for pid in (*agent.ranks, grandchild)))
        told = words(tmp_path / "farewell", 2) if eventually((tmp_path / "farewell").exists) else []
        assert told == ["spawner", str(agent.spawner)]
        eventually(lambda: gone(agent.spawner))


def test_a_killed_agent_takes_everything_along_though_the_spawner_is_stopped(tmp_path: Path) -> None:
    with LoneAgent(tmp_path, 0, f"{sys.executable} {PROGRAMS}/clinging.py stay", "sleep 600") as agent:
        grandchild = grandchild_in(tmp_path / "0.out")
        os.kill(agent.spawner, signal.SIGSTOP)
        eventually(lambda: (p := trees.process(agent.spawner)) and p.stopped)
        try:
            agent.process.kill()
            eventually(lambda: all(gone(pid) for pid in (*agent.ranks, grandchild, agent.spawner)))
        finally:
            if not gone(agent.spawner):
                os.kill(agent.spawner, signal.SIGCONT)


SUSPENDED = ("unshare", "--time", "--boottime", "100000")  # as on a machine that was suspended for a day


@pytest.mark.parametrize("under", [(), SUSPENDED], ids=["", "after a suspension"])
def test_a_frozen_agents_ranks_die_at_the_deadline(under: Sequence[str], tmp_path: Path) -> None:
    if under and subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to make a time namespace")
    clinging = f"{sys.executable} {PROGRAMS}/clinging.py stay"
    with LoneAgent(tmp_path, 3.0, clinging, "sleep 600", under=under) as agent:
        grandchild = grandchild_in(tmp_path / "0.out")
        assert not any(gone(pid) for pid in agent.ranks)
        agent.process.send_signal(signal.SIGSTOP)
        frozen = time.monotonic()
        eventually(lambda: all(gone(pid) for pid in (*agent.ranks, grandchild)))
        assert 1.5 < time.monotonic() - frozen < 15
        agent.process.send_signal(signal.SIGCONT)
        assert agent.out.read().split("\n") == ["deadline passed", "-9", "-9", ""]
        assert agent.process.wait(60) == 0
    assert not (tmp_path / "farewell").exists()


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Bench]:
    """A warm start, with next to nothing for torch."""
    (tmp_path / "torch.py").write_text("class default_generator:\n    seed = staticmethod(lambda: None)\n")
    others = other_children()
    made = Bench("warm", env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"))
    yield made
    made.close()
    assert made.notes == []
    assert trees.descendants(os.getpid(), trees.snapshot(), spare=others) == []


def test_standbys_become_the_ranks_of_the_next_start(warm: Bench, tmp_path: Path) -> None:
    first = warm.start([inline(SLEEP)] * 2, tmp_path)
    ready = warm.await_standbys(3)
    assert not ready & {*first.values()}
    warm.stop()
    assert warm.standbys() == ready
    pids = {*warm.start([inline("import os; print(os.environ['RANK'], os.getpid()); " + SLEEP)] * 2, tmp_path).values()}
    assert pids < ready
    told = [words(tmp_path / f"{n}.out", 3) for n in range(2)]
    assert [[rank, int(pid) in pids] for rank, pid, _ in told] == [["0", True], ["1", True]]
    assert warm.standbys() & ready == ready - pids  # others may be there already
    assert ready - pids < warm.await_standbys(3)
    warm.do(warm.spawner.signal(signal.SIGTERM))
    assert [warm.exit().exit_code, warm.exit().exit_code] == [-signal.SIGTERM] * 2


def test_a_standby_that_is_dead_or_has_a_signal_waiting_is_not_used(warm: Bench, tmp_path: Path) -> None:
    warm.start([inline(SLEEP)] * 2, tmp_path)
    dead, signalled, stopped = ready = sorted(warm.await_standbys(3))
    os.kill(dead, signal.SIGKILL)
    os.kill(signalled, signal.SIGUSR1)
    os.kill(stopped, signal.SIGSTOP)
    eventually(lambda: gone(dead) and ((p := trees.process(stopped)) is None or p.stopped or p.zombie))
    warm.stop()
    pids = warm.start([inline(SLEEP)] * 2, tmp_path)
    assert not {*pids.values()} & {*ready}
    for n in range(2):
        words(tmp_path / f"{n}.out", 1)
    warm.await_standbys(3)


def test_standbys_are_not_used_under_other_limits(warm: Bench, tmp_path: Path) -> None:
    text = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)); " + SLEEP
    warm.start([inline(text)], tmp_path)
    ready = warm.await_standbys(2)
    resource.prlimit(warm.spawner.pid, resource.RLIMIT_CORE, (0, 0))
    warm.stop()
    assert not {*warm.start([inline(text)], tmp_path).values()} & ready
    assert words(tmp_path / "0.out", 2)[:2] == ["(0,", "0)"]


def test_a_stop_beside_standbys_waits_for_what_a_rank_left_behind(warm: Bench, tmp_path: Path) -> None:
    warm.start([python("script", PROGRAMS / "clinging.py", "0"), inline(SLEEP)], tmp_path)
    assert warm.exit().exit_code == 0
    grandchild = grandchild_in(tmp_path / "0.out")
    ready = warm.await_standbys(3)
    warm.do(warm.spawner.stop(signum=signal.SIGTERM, grace=0.2))
    assert gone(grandchild)
    assert warm.standbys() == ready


def test_the_deadline_spares_standbys(warm: Bench, tmp_path: Path) -> None:
    pids = warm.start([inline(SLEEP)], tmp_path)
    ready = warm.await_standbys(2)
    warm.page.set(boottime() - 1)
    assert warm.exit().exit_code == -signal.SIGKILL
    assert gone(pids[0])
    assert warm.spawner.deadline_passed.is_set()
    warm.spawner.deadline_passed.clear()
    warm.do(asyncio.sleep(1.2))
    assert not warm.spawner.deadline_passed.is_set()
    assert warm.standbys() == ready
    warm.page.clear()
    assert {*warm.start([inline(SLEEP)], tmp_path).values()} < ready
    warm.stop()


@pytest.mark.parametrize("how", ["killed", "left alone"])
def test_standbys_end_with_the_spawner_process(how: str, warm: Bench, tmp_path: Path) -> None:
    warm.start([inline(SLEEP)], tmp_path)
    ready = warm.await_standbys(2)
    if how == "killed":
        os.kill(warm.spawner.pid, signal.SIGKILL)
    else:
        warm.spawner._talk._channel.socket.shutdown(socket.SHUT_WR)
    warm.do(warm.spawner.lost.wait())
    eventually(lambda: all(gone(pid) for pid in ready))


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("host", ["::", "127.0.0.1"])
def test_the_store_serves_on_a_socket_that_was_listening_before(host: str, bench: Bench, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.bind((host, 0))
    listener.listen(128)
    port = listener.getsockname()[1]
    text = (
        "import sys; from torch.distributed import TCPStore; s = TCPStore('127.0.0.1', int(sys.argv[2]), 2,"
        " is_master=False); s.set(sys.argv[3], 'x'); s.wait(['a', 'b']); print('met')"
    )
    programs = [inline(text, str(port), name) for name in ("a", "b")]
    bench.start(programs, tmp_path, listener)
    assert [bench.exit().exit_code, bench.exit().exit_code] == [0, 0]
    assert (tmp_path / "0.out").read_text() == "met\n"
    bench.stop()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_a_store_that_dies_is_told(bench: Bench, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    bench.start([inline(SLEEP)], tmp_path, listener)

    def store() -> list[int]:
        children = trees.descendants(bench.spawner.pid, trees.snapshot())
        return [p.pid for p in children if b"store_host" in Path(f"/proc/{p.pid}/cmdline").read_bytes()]

    os.kill(eventually(store)[0], signal.SIGKILL)
    end = bench.exit()
    assert (end.local_rank, end.exit_code) == (STORE, -9)
    bench.stop()


def test_a_preload_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    bench = Bench("warm", ["no_such_thing"], environment(PYTHONPATH=str(tmp_path)))
    with pytest.raises(StartError, match="No module named 'no_such_thing'"):
        bench.do(bench.spawner.ready())
    bench.close()


def test_a_spawner_that_still_imports_holds_up_no_end(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    bench = Bench("warm", [], environment(PYTHONPATH=str(tmp_path)))
    bench.do(asyncio.wait_for(bench.spawner.stop(signum=signal.SIGTERM, grace=0), 60))
    bench.do(asyncio.wait_for(bench.spawner.close(), 60))
    bench.close()
