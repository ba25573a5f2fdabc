"""``elaunch qualify`` disturbed: killed, interrupted twice, two at once, an output directory that goes or is full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.qualify.cells import Outcome
from elaunch.qualify.report import read
from tests.e2e.harness import wait_until
from tests.e2e.test_qualify import left, started
from tests.lab.sshd import missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CELLS = ("--only=launch/budget", "--only=launch/restart", "--only=launch/fixed")


def printed(output: Path) -> str:
    return (output / "printed").read_text()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("after", [0.6, 1.5, 3.0])
def test_killed_at_any_moment_nothing_stays_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    output = tmp_path / "out"
    process = started(output, *CELLS, "--only=faults/kill/backward")
    time.sleep(after)
    process.kill()
    process.wait(10)
    wait_until("nothing runs", lambda: not left(output))
    of_torch = "torchinductor_"  # a cache that torch keeps for a user
    assert [path.name for path in (tmp_path / "tmp").iterdir() if not path.name.startswith(of_torch)] == []


def test_a_second_interrupt_breaks_nothing_off(tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = started(output, *CELLS)
    wait_until("a job's ranks", lambda: len(left(output)) > 3)
    for signum in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        process.send_signal(signum)
        time.sleep(0.1)
    assert process.wait(120) == 130, printed(output)
    assert left(output) == []
    assert "Traceback" not in printed(output)
    assert read((output / "report.json").read_text()).partial == "interrupted"


def test_two_at_once_do_not_share_an_output_directory(tmp_path: Path) -> None:
    output = tmp_path / "out"
    first = started(output, *CELLS)
    wait_until("its logs", lambda: list(output.glob("logs/*.log")))
    (output / "printed").rename(tmp_path / "first")
    before = set(os.listdir(output / "logs"))
    argv = [*map(str, first.args)]  # type: ignore[arg-type]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 2
    assert second.stderr == f"elaunch: error: qualify: --output={output}: another qualification writes there\n"
    assert before <= set(os.listdir(output / "logs"))
    assert first.wait(200) == 0, (tmp_path / "first").read_text()


def test_the_output_directory_goes(tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = started(output, *CELLS)
    wait_until("a job's ranks", lambda: len(left(output)) > 3)
    output.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved" / "logs")
    assert process.wait(120) == 2, (tmp_path / "moved" / "printed").read_text()
    last = (tmp_path / "moved" / "printed").read_text().splitlines()[-1]
    assert last.startswith(f"elaunch: error: qualify: --output={output}: No such file or directory: ")
    wait_until("nothing runs", lambda: not left(output))


def test_the_disk_is_full(tmp_path: Path, small: Path) -> None:
    output = tmp_path / "out"
    with (small / "filler").open("wb") as file:
        file.write(bytes(1 << 20))
    process = started(output, "--only=launch/budget", f"--output={small}")
    assert process.wait(120) == 2, (tmp_path / "moved" / "printed").read_text()
    assert printed(output).splitlines()[-1].startswith(f"elaunch: error: qualify: --output={small}: No space left")
    assert not list(small.glob(".report*"))
    wait_until("nothing runs", lambda: not left(output))


def test_a_host_that_is_not_there_is_told_before_anything_is_run(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    output = tmp_path / "out"
    process = started(output, "--hosts=127.0.0.1:1,127.0.0.2:1")  # where nobody listens
    assert process.wait(120) == 75, printed(output)
    *_, last = printed(output).splitlines()
    assert last.startswith("elaunch: error: 2 of the 2 hosts are not there"), last
    assert "ssh to 127.0.0.1 failed: " in last, last
    found = read((output / "report.json").read_text())
    assert (found.count(Outcome.OK), found.count(Outcome.FAILED)) == (0, 0)
    assert last.endswith(found.partial)
    wait_until("nothing runs", lambda: not left(output))
