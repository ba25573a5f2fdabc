"""What a program tells elaunch with its few functions, and that their thread is in nobody's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elaunch.agent.progress import Pages
from elaunch.agent.witness import Witness
from elaunch.progress import RankProgress
from elaunch.progress_page import STACKS_SIGNAL
from tests.e2e.spawning import PROGRAMS, environment

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    made.open(0, 1)
    yield made
    made.close()


@pytest.fixture
def start(pages: Pages) -> Iterator[Start]:
    """Starts ``quiet.py MODE`` as the rank."""
    started: list[subprocess.Popen[str]] = []

    def run(mode: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAMS / "quiet.py"), mode]
        env = environment(**pages.env(0))
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        started.append(process)
        pages.started({0: process.pid})
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def look(pages: Pages) -> RankProgress:
    (found,) = pages.read(time.monotonic())
    return found


def witness(pages: Pages) -> Witness:
    (found,) = pages.witnesses(time.monotonic(), {})
    return found


def until(pages: Pages, right: Callable[[RankProgress], bool]) -> RankProgress:
    end = time.monotonic() + 60
    while not right(found := look(pages)):
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_forked_children_are_no_ranks(pages: Pages, start: Start) -> None:
    process = start("fork")
    assert said(process) == "forked"
    rank = until(pages, lambda rank: "readline" not in rank.where)
    assert (rank.step, rank.section, rank.pid) == (1, "forking", process.pid)
    assert rank.section_left is not None
    assert 0 < rank.section_left <= 100
    assert process.communicate("\n", timeout=60) == ("", "")
    assert process.returncode == 0


def test_the_thread_is_none_of_the_programs(start: Start) -> None:
    assert start("threads").communicate(timeout=60) == ("well\n", "")


def test_the_end_of_the_program_is_not_held_up(pages: Pages, start: Start) -> None:
    process = start("leave")
    until(pages, lambda rank: rank.attached)
    began = time.monotonic()
    assert process.communicate("\n", timeout=60) == ("last\n", "")
    assert process.returncode == 0
    assert time.monotonic() - began < 5
    assert pages.read(time.monotonic()) == ()


def test_a_thread_that_fails_is_told_and_its_rank_is_judged_by_its_end_only(pages: Pages, start: Start) -> None:
    """A claimed page on which nobody beats would look like an interpreter lock that is held for ever."""
    process = start("broken")
    until(pages, lambda rank: rank.attached and rank.beat_age < 1)
    assert process.stdin is not None
    process.stdin.write("break\n")
    process.stdin.flush()
    assert said(process) == "broken"
    rank = until(pages, lambda rank: not rank.attached)
    assert (rank.pid, rank.beat_age) == (process.pid, 0.0)
    out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    (line,) = err.splitlines()
    assert line.startswith("elaunch: the thread that reports this rank's progress has ended (AttributeError: ")
    assert out == ""


def test_a_thread_that_cannot_be_started_is_told_once(pages: Pages, start: Start) -> None:
    process = start("unbegun")
    assert said(process) == "ready"
    assert not look(pages).attached
    assert len(process.communicate("\n", timeout=60)[1].splitlines()) == 1
    assert process.returncode == 0


def test_a_signal_that_the_program_uses_stays_its_own(pages: Pages, start: Start) -> None:
    process = start("handled")
    assert said(process) == "ready"
    assert not witness(pages).interrupt()
    assert process.communicate("\n", timeout=60) == ("", "")


def test_the_programs_own_faulthandler_goes_on(pages: Pages, start: Start) -> None:
    process = start("registered")
    assert said(process) == "ready"
    found = witness(pages)
    assert found.interrupt()
    until(pages, lambda _: "in registered" in found.stacks())
    _, err = process.communicate("\n", timeout=60)
    assert err.count("in registered") == 1
    assert process.returncode == 0


def test_a_program_that_became_another_is_not_signalled(pages: Pages, start: Start) -> None:
    process = start("become")
    until(pages, lambda rank: rank.attached)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    until(pages, lambda rank: Path(f"/proc/{rank.pid}/comm").read_text() == "cat\n")
    assert not look(pages).attached
    found = witness(pages)
    assert found.sight.page.signal == STACKS_SIGNAL  # the word of the program that was
    assert not found.interrupt()
    assert process.communicate("still here", timeout=60) == ("still here", "")


def test_an_agent_that_dies_leaves_no_file(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    code = "from elaunch.agent.progress import Pages; p = Pages(); p.open(0, 4); print(p.env(0), flush=True); input()"
    env = environment(TMPDIR=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ELAUNCH_PROGRESS_PAGE" in process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []
    assert {name for name in os.listdir("/dev/shm") if "elaunch" in name} <= before


def test_without_elaunch_nothing_happens_and_little_is_loaded() -> None:
    code = """
import sys, threading
import elaunch
assert not any(name.startswith("elaunch.") for name in sys.modules)
elaunch.step(3)
with elaunch.section("a", timeout=1), elaunch.section("b"):
    pass
assert elaunch.should_stop() is False and elaunch.time_left() is None
assert threading.active_count() == 1
assert not {"torch", "asyncio", "grpc", "structlog"} & set(sys.modules)
try:
    elaunch.section("c", timeout=0)
except ValueError as error:
    print(error)
try:
    elaunch.nothing
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "elaunch.section('c'): timeout=0 must be more than 0 seconds",
        "module 'elaunch' has no attribute 'nothing'",
    ]
