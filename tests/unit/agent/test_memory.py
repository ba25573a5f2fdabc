"""A kill for want of memory is told apart from another SIGKILL by the kernel's count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.agent.memory import OutOfMemory, _counter


@pytest.mark.parametrize("text", ["low 0\noom 3\noom_kill {}\noom_group_kill 9\n", "under_oom 0\noom_kill {}\n"])
def test_each_kill_is_told_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "memory.events"
    file.write_text(text.format(4))
    memory = OutOfMemory(file)
    assert not memory.killed()
    file.write_text(text.format(6))
    assert [memory.killed(), memory.killed(), memory.killed()] == [True, True, False]
    file.write_text(text.format(7))
    memory.forget()
    assert not memory.killed()


def test_a_counter_that_goes_away_counts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("oom_kill 2\n")
    memory = OutOfMemory(file)
    file.unlink()
    assert not memory.killed()


def test_this_machine_has_one_or_none() -> None:
    found = _counter(os.getpid())
    assert found is None or "oom_kill " in found.read_text()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A cgroup with 64 MiB of memory, where this machine lets one be made; the file with its count of kills."""
    found = _counter(os.getpid())
    if found is None:
        pytest.skip("this machine counts no kills for want of memory")
    group = found.parent / f"elaunch-test-{os.getpid()}"
    limit = "memory.max" if found.name == "memory.events" else "memory.limit_in_bytes"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        (group / limit).write_text(str(64 << 20))
        yield group / found.name
    except OSError as error:
        pytest.skip(f"the memory of a cgroup cannot be limited here: {error}")
    finally:
        group.rmdir()


def test_a_real_kill_is_counted_and_another_is_not(small: Path) -> None:
    memory = OutOfMemory(small)
    join = "import sys, os; open(sys.argv[1], 'w').write(str(os.getpid())); "
    code = join + "print(flush=True); input(); eval(sys.argv[2])"
    for what, killed in (("os.kill(os.getpid(), 9)", False), ("bytearray(1 << 30)", True)):
        argv = [sys.executable, "-c", code, str(small.parent / "cgroup.procs"), what]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            process.communicate(b"\n", timeout=30)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert memory.killed() is killed
