"""``elaunch top`` on a real terminal, with a real job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, ROOT, Job, wait_until
from tests.e2e.operating import elaunch
from tests.e2e.terminal import Pty

pytestmark = pytest.mark.slow

STEPPING = [str(PROGRAMS / "stepping.py")]
TOP = [sys.executable, "-m", "elaunch", "top"]


@pytest.fixture
def runtime(tmp_path: Path) -> dict[str, str]:
    return {"ELAUNCH_RUNTIME_DIR": str(tmp_path / "run")}


@pytest.fixture
def running(job: MakeJob, runtime: dict[str, str]) -> Iterator[Job]:
    options = ("--nproc-per-node=3", "--max-restarts=5", "--rdzv-id=here", "--start=exec")
    one = job(*options, program=STEPPING, env=runtime)
    agent = one.agent()
    wait_until("it runs", lambda: "running (" in agent.output())
    yield one
    one.finish()
    agent.wait()


def environment(runtime: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **runtime}


def steps(lines: list[str]) -> list[int]:
    """Of the rows of ranks: number, host, phase, step."""
    found = [re.fullmatch(r"\d+ +\S+ +running +(\d+) +\d+.*", line) for line in lines]
    return [int(match[1]) for match in found if match]


def test_a_job_is_watched_from_step_to_step_and_over_a_restart(running: Job, runtime: dict[str, str]) -> None:
    with Pty([*TOP, "here", "--interval=0.2"], environment(runtime)) as screen:
        first = screen.until(lambda lines: len(steps(lines)) == 3, "three ranks with steps")
        assert re.match(
            r"\d\d:\d\d:\d\d  here: running, generation 1, 3 ranks, 1 node of 1:1, 0 restarts, 5 left", first[0]
        )
        assert any(line.startswith("ranks: ") and " at step " in line for line in first)
        screen.until(lambda lines: "generation 1" in " ".join(lines).partition("last events")[2], "events")
        screen.until(lambda lines: min(steps(lines), default=0) > max(steps(first)), "further steps")
        (running.out / "fail-1").touch()
        screen.shows("here: running, generation 2, 3 ranks, 1 node of 1:1, 1 restart, 4 left")
        screen.until(
            lambda lines: any("rank 1" in line and "exited with code 1" in line for line in lines), "why it began again"
        )

        screen.resize(60, 12)
        screen.signal(signal.SIGWINCH)
        screen.until(lambda lines: len(lines) <= 12 and all(len(line) < 60 for line in lines), "a smaller screen")
        screen.resize(20, 2)
        screen.signal(signal.SIGWINCH)
        screen.until(lambda lines: len(lines) <= 2, "a tiny screen")
        screen.resize(120, 40)
        screen.signal(signal.SIGWINCH)
        screen.until(lambda lines: len(steps(lines)) == 3, "a larger screen")

        screen.type("q")
        assert screen.wait() == 0
        assert screen.restored()
        assert (
            screen.raw.rstrip().splitlines()[-1].startswith("here: running, generation 2")
            or "here: running" in screen.raw[-200:]
        )
        assert "\x1b[2J" not in screen.raw.split("\x1b[2J", 1)[1], "cleared once, at the beginning, and never again"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back_after_a_signal(
    running: Job, runtime: dict[str, str], signum: signal.Signals
) -> None:
    with Pty([*TOP, "here"], environment(runtime)) as screen:
        screen.shows("here: running")
        if signum == signal.SIGINT:
            screen.type("\x03")
        else:
            screen.signal(signum)
        assert screen.wait() == 128 + signum
        assert screen.restored()


def test_it_ends_with_the_job(running: Job, runtime: dict[str, str]) -> None:
    with Pty([*TOP, "here", "--interval=0.2"], environment(runtime)) as screen:
        screen.shows("here: running")
        running.finish()
        assert screen.wait(120) == 0
        assert screen.restored()
        assert "here: " in screen.raw.rpartition("\x1b[?1049l")[2]


def test_all_jobs_are_shown(running: Job, job: MakeJob, runtime: dict[str, str]) -> None:
    other = job("--rdzv-id=there", "--start=exec", program=STEPPING, env=runtime)
    agent = other.agent()
    wait_until("it runs", lambda: "running (" in agent.output())
    with Pty([*TOP, "--interval=0.2"], environment(runtime)) as screen:
        lines = screen.until(lambda lines: sum("running" in line for line in lines) == 2, "two jobs")
        assert "2 jobs, 4 ranks" in lines[0]
        other.finish()
        agent.wait()
        screen.shows("here: running, generation")  # the one that is left, with all that is known of it
        screen.type("q")
        assert screen.wait() == 0


def test_without_a_terminal_it_is_a_line_for_each_change(running: Job, runtime: dict[str, str], tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        top = subprocess.Popen([*TOP, "here", "--interval=0.2"], env=environment(runtime), stdout=out, stderr=out)
    text = lambda: (tmp_path / "out").read_text()  # noqa: E731
    try:
        wait_until("the headline", lambda: "here: running, generation 1, 3 ranks" in text())
        (running.out / "fail-2").touch()
        wait_until("the restart", lambda: "here: running, generation 2, 3 ranks" in text())
        assert "\x1b" not in text()
        aborting = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  job_aborting: .*rank 2", re.MULTILINE)
        wait_until("why", lambda: aborting.search(text()))
        before = text().count("here: running, generation 2, 3 ranks")
        running.finish()
        assert top.wait(120) == 0
        assert text().count("here: running, generation 2, 3 ranks") == before == 1, "said once"
    finally:
        top.kill()
        top.wait(10)


def test_json_lines_for_machines(running: Job, runtime: dict[str, str]) -> None:
    top = subprocess.Popen([*TOP, "here", "--json"], env=environment(runtime), stdout=subprocess.PIPE, text=True)
    try:
        assert top.stdout is not None
        document = next(one for line in top.stdout if "phase" in (one := json.loads(line)))
        assert (document["job"], document["phase"], document["generation"]) == ("here", "running", 1)
    finally:
        top.kill()
        top.wait(10)
        top.stdout.close()


def test_a_job_that_is_not_there_takes_no_screen(runtime: dict[str, str]) -> None:
    with Pty([*TOP, "nowhere"], environment(runtime)) as screen:
        assert screen.wait() == 66
        assert "\x1b[?1049h" not in screen.raw
    assert elaunch("top", "--plain", "--interval=x", **runtime).code == 2
