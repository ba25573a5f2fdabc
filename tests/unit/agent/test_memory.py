"""A kill for want of memory is told apart from another SIGKILL by the kernel's count."""

from __future__ import annotations

import os
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
