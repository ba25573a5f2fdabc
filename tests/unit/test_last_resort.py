"""A rank reads its agent's last deadline, and trusts no other file and no other clock."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.clock import boottime
from elaunch.deadline_page import DEADLINE, DeadlinePage

PROGRAM = """
import sys
from elaunch.worker.last_resort import LastResort
last = LastResort()
for _ in sys.stdin:
    last.look()
    print("lives", flush=True)
"""


@pytest.fixture
def page() -> Iterator[DeadlinePage]:
    made = DeadlinePage.create()
    yield made
    made.close()


class Rank:
    """A process that looks when it is told to."""

    def __init__(self, path: str, *under: str) -> None:
        pipe = subprocess.PIPE
        argv = [*under, sys.executable, "-c", PROGRAM]
        env = {**os.environ, DEADLINE: path, "PYTHONPATH": os.getcwd()}
        self.process = subprocess.Popen(argv, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    def looks(self) -> bool:
        """Whether it lives after a look."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("look\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "lives\n"

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


def test_a_rank_ends_once_the_last_deadline_has_passed(page: DeadlinePage) -> None:
    rank = Rank(page.path)
    assert rank.looks()
    for last in (boottime() + 3600, math.inf, boottime() + 3600):
        page.set(0.0, last)  # the first one is the spawner's business
        assert rank.looks()
    page.set(0.0, boottime() - 0.001)
    assert not rank.looks()
    code, said = rank.end()
    assert code == -signal.SIGKILL
    assert len(said.splitlines()) == 1


def test_a_page_that_ran_out_before_the_rank_began_is_not_its_own(page: DeadlinePage) -> None:
    page.set(0.0, boottime() - 0.001)
    rank = Rank(page.path)
    assert rank.looks()
    assert rank.end()[0] == 0


def test_another_file_is_no_page(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("w+b") as file:
        file.write(bytes(8192))
        file.flush()
        for path in (f"/proc/{os.getpid()}/fd/{file.fileno()}", str(tmp_path / "zeros"), "", "/proc/1/fd/9999"):
            rank = Rank(path)
            assert rank.looks()
            assert rank.end()[0] == 0


def test_a_rank_in_another_time_namespace_trusts_no_deadline(page: DeadlinePage) -> None:
    under = ("unshare", "--time", "--fork", "--boottime", "100000")
    if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to make a time namespace")
    page.set(math.inf, boottime() + 3600)
    rank = Rank(page.path, *under)
    assert rank.looks()
    page.set(0.0, boottime() - 0.001)
    assert rank.looks()
    assert rank.end()[0] == 0
