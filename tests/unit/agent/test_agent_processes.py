"""What the spawner process stands on: messages with descriptors, the deadline page, process trees."""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elaunch.agent import trees
from elaunch.agent.deadman import Alarm
from elaunch.agent.program import Program
from elaunch.agent.protocol import Channel
from elaunch.agent.start import RankStart, command
from elaunch.clock import boottime
from elaunch.deadline_page import DeadlinePage


def pair() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return Channel(one), Channel(other)


def test_messages_larger_than_the_socket_arrive() -> None:
    one, other = pair()
    messages = [{"n": n, "text": "\udc80" + "x" * 300_000} for n in range(5)]
    for message in messages:
        one.send(message)
    assert one.unsent
    got = []
    while len(got) < 5:
        got += other.receive()
        one.flush()
    assert got == messages
    one.close()
    assert other.receive() == []
    assert other.eof
    other.send({"to": "nobody"})
    assert not other.unsent
    other.close()


def test_descriptors_arrive_in_order_and_are_not_inherited(tmp_path: Path) -> None:
    one, other = pair()
    for name in ("a", "b"):
        with (tmp_path / name).open("w") as file:
            one.send({"file": name}, (file.fileno(),))
    assert other.receive() == [{"file": "a"}, {"file": "b"}]
    for name in ("a", "b"):
        fd = other.take_fd()
        assert os.readlink(f"/proc/self/fd/{fd}") == str(tmp_path / name)
        assert not os.get_inheritable(fd)
        os.close(fd)
    one.close()
    other.close()


def test_both_sides_of_the_page_see_the_deadline() -> None:
    page = DeadlinePage.create()
    other = DeadlinePage(os.dup(page.fd))
    assert other.get() == math.inf
    page.set(12.5)
    assert other.get() == 12.5
    page.clear()
    assert other.get() == math.inf
    page.close()
    other.close()


@given(
    st.integers(0, 3),
    st.lists(st.text(), max_size=3),
    st.none() | st.sets(st.integers(0, 9)),
    st.none() | st.integers(0, 7),
)
def test_a_start_survives_its_way(rank: int, args: list[str], cpus: set[int] | None, memory: int | None) -> None:
    program = Program("script", "train.py", tuple(args), sys.executable)
    start = RankStart(rank, rank, program, {"A": "b"}, Path("/x/o"), None, tuple(cpus) if cpus else None, memory)
    assert RankStart.from_json(start.to_json()) == start


def test_plain_command_lines() -> None:
    def line(kind: str) -> list[str]:
        return command(Program(kind, "t", ("-x",), "/py"))  # type: ignore[arg-type]

    assert line("script") == ["/py", "-u", "t", "-x"]
    assert line("module") == ["/py", "-u", "-m", "t", "-x"]
    assert line("command") == ["t", "-x"]
    assert line("run_path")[:3] == ["/py", "-u", "-c"]
    assert line("run_path")[4:] == ["t", "-x"]


def sleeper() -> subprocess.Popen[bytes]:
    """A process with an odd name, in which a child sleeps."""
    text = "import subprocess; open('/proc/self/comm', 'w').write('a) b (c'); subprocess.run(['sleep', '60'])"
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.DEVNULL)


def test_trees_are_seen_and_killed() -> None:
    others = [p.pid for p in trees.descendants(os.getpid(), trees.snapshot())]  # of the tests before this one
    parent = sleeper()
    end = time.monotonic() + 60
    while not (below := trees.descendants(parent.pid, trees.snapshot())):
        assert time.monotonic() < end
    me = trees.process(parent.pid)
    assert me is not None
    assert me.parent == os.getpid()
    everything = trees.descendants(os.getpid(), trees.snapshot())
    assert {me.pid, below[0].pid} <= {p.pid for p in everything}
    assert trees.descendants(os.getpid(), trees.snapshot(), spare=[*others, parent.pid]) == []
    assert trees.kill_all(lambda: [p for p in (me, *below) if (q := trees.process(p.pid)) and not q.zombie], 10) == []
    parent.poll()
    assert trees.process(parent.pid) is None


def test_a_number_used_again_is_not_signalled() -> None:
    child = subprocess.Popen(["sleep", "60"])
    now = trees.process(child.pid)
    assert now is not None
    before = trees.Process(now.pid, now.parent, now.state, now.started - 1)
    assert not trees.send(before, signal.SIGKILL)
    assert child.poll() is None
    assert trees.send(now, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not trees.send(now, signal.SIGKILL)


def test_an_alarm_rings_at_its_time_and_until_it_is_set_anew() -> None:
    alarm = Alarm.create()
    assert alarm is not None
    poller = select.poll()
    poller.register(alarm, select.POLLIN)
    assert poller.poll(0) == []
    alarm.set(boottime() + 60)
    assert poller.poll(0) == []
    due = boottime() + 0.05
    alarm.set(due)
    assert poller.poll(60_000)
    assert boottime() >= due
    assert poller.poll(0), "it rings on"
    alarm.set(math.inf)
    assert poller.poll(0) == []
    alarm.set(boottime() - 10)
    assert poller.poll(0), "a time that has passed, while the machine was suspended say, is seen at once"
    alarm.close()
