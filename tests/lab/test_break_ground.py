"""A laboratory whose maker or reaper is killed, stopped or in a hurry: nothing of it may be left."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.lab import impossible, reaper
from elaunch.lab.ground import PREFIX, claim
from tests.e2e.harness import ROOT, gone, wait_until
from tests.lab.network import Network, ip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(impossible()), reason=impossible() or "-")]

_MAKE = """
from elaunch.lab import Network
import tempfile
tempfile.tempdir = {folder!r}
print("begins", flush=True)
with Network(2, others=("x",)) as net:
    print(net.name, net.folder, net.ground.process.pid, flush=True)
    input()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """It makes a network, with its files below ``tmp_path / "made"``."""
    (tmp_path / "made").mkdir()
    code = _MAKE.format(folder=str(tmp_path / "made"))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as made:
        yield made
        made.kill()


def told(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(20)


def left(name: str) -> bool:
    return name in ip("netns", "list") + ip("link", "show")


@pytest.mark.parametrize("seed", range(5))
def test_killed_while_it_is_made(process: subprocess.Popen[str], tmp_path: Path, seed: int) -> None:
    """At a moment by chance: also while a tool of its own is about to make a piece."""
    made = tmp_path / "made"
    told(process)
    wait_until("it has begun", lambda: list(made.iterdir()))
    (folder,) = made.iterdir()
    time.sleep(random.Random(seed).random() * 0.6)
    kill(process)
    name = folder.name.removeprefix("elaunch-")
    wait_until("its reaper has ended", lambda: name not in reaper.reapers())
    assert not left(name)
    assert list((tmp_path / "made").iterdir()) == []
    assert reaper.making(name) == []


@pytest.mark.parametrize("signum", [signal.SIGSTOP, signal.SIGKILL])
def test_a_reaper_that_is_stopped_or_killed(signum: signal.Signals) -> None:
    with Network(1) as net:
        os.kill(net.ground.process.pid, signum)
    assert not left(net.name)
    assert not net.folder.exists()


def test_the_next_takes_away_what_a_stopped_reaper_left(process: subprocess.Popen[str], tmp_path: Path) -> None:
    told(process)
    name, _, reaping = told(process)
    os.kill(int(reaping), signal.SIGSTOP)
    kill(process)
    assert left(name)
    claim().close()
    wait_until("its reaper has ended", lambda: gone(int(reaping)))
    assert not left(name)
    assert list((tmp_path / "made").iterdir()) == []


def test_another_temporary_directory_is_no_other_machine(
    process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses and names are the machine's: a laboratory whose TMPDIR is another must not be taken for left behind."""
    told(process)
    name, folder, _ = told(process)
    number = int(name.removeprefix(PREFIX).removesuffix("n"))
    first = [100 + (number + n - os.getpid()) % 100 for n in range(100)]  # the search begins at that number
    monkeypatch.setattr("elaunch.lab.ground.NUMBERS", first)
    assert first[os.getpid() % 100] == number
    other = claim()
    monkeypatch.undo()
    try:
        assert other.name != name
        assert left(name)
        assert Path(folder).exists()
    finally:
        other.close()
        kill(process)
    wait_until("nothing is left", lambda: not left(name))


def test_a_folder_that_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that somebody else has put there is neither followed nor fatal."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    start = os.getpid() % 100 + 100
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").touch()
    (tmp_path / f"elaunch-{PREFIX}{start}n").symlink_to(target)
    ground = claim()
    ground.close()
    assert (target / "file").exists()


def test_nobody_asks_in_vain_whether_it_is_possible() -> None:
    """Nothing is left of the question, even where who asked is killed."""
    argv = [sys.executable, "-c", "from elaunch.lab import impossible\nwhile True: impossible()"]
    with subprocess.Popen(argv, cwd=ROOT) as process:
        time.sleep(1.0)  # in the midst of asking
        process.kill()
    wait_until("nothing is left", lambda: not re.search(rf"\b{process.pid}x\b|probe", ip("netns", "list")))
