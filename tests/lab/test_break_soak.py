"""bench/soak.py given what it cannot take, interrupted, killed, on a full disk: one line, a code of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.lab import impossible, reaper
from tests.e2e.harness import MARK, ROOT, marked, wait_until
from tests.lab.network import ip

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(400)]
ARGV = [sys.executable, str(ROOT / "bench" / "soak.py")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--minutes", "nan"), "above 0"),
        (("--minutes", "inf"), "too many"),
        (("--minutes", "1e300"), "too many"),
        (("--every", "1e-9"), "too many"),
        (("--every", "0"), "above 0"),
        (("--kinds", ""), "no fault ''"),
        (("--json", "/nonexistent/x.json"), "cannot be written there"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run([*ARGV, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def started(tmp: Path) -> subprocess.Popen[bytes]:
    if why := impossible():
        pytest.skip(why)
    env = {**os.environ, "TMPDIR": str(tmp), MARK: str(tmp)}
    with (tmp.parent / "printed").open("wb") as log:
        return subprocess.Popen([*ARGV, "--seed", "1", "--quick"], env=env, stdout=log, stderr=log)


def nothing_left(tmp: Path) -> bool:
    names = [path.name.removeprefix("elaunch-") for path in tmp.glob("elaunch-elb*")]
    there = ip("netns", "list") + ip("link", "show")
    mounted = str(tmp) in Path("/proc/self/mounts").read_text()
    return not (list(tmp.iterdir()) or marked(str(tmp)) or mounted or any(name in there for name in names))


@pytest.mark.parametrize(("signals", "code"), [(("INT", "INT", "TERM"), 130), (("TERM",), 143), (("KILL",), -9)])
def test_however_it_is_ended_nothing_is_left(tmp_path: Path, signals: tuple[str, ...], code: int) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    process = started(tmp)
    wait_until("agents", lambda: list(tmp.glob("elaunch-elb*/agent-3-*.log")))
    (name,) = (path.name.removeprefix("elaunch-") for path in tmp.glob("elaunch-elb*"))
    assert name in reaper.reapers()
    for signum in signals:
        process.send_signal(signal.Signals[f"SIG{signum}"])
    assert process.wait(100) == code, (tmp_path / "printed").read_text()
    wait_until("nothing is left", lambda: nothing_left(tmp))
    assert name not in ip("netns", "list") + ip("link", "show")
    assert "Traceback" not in (tmp_path / "printed").read_text()


def test_the_disk_is_full(tmp_path: Path) -> None:
    """The machine does not let it go on: that is neither a broken invariant nor bad input."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "small", str(tmp)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    try:
        process = started(tmp)
        wait_until("agents", lambda: list(tmp.glob("elaunch-elb*/agent-3-*.log")))
        try:
            with (tmp / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            pass
        assert process.wait(240) in (1, 3), (tmp_path / "printed").read_text()
        text = (tmp_path / "printed").read_text()
        assert "Traceback" not in text, text
        wait_until("nothing runs", lambda: not marked(str(tmp)))
    finally:
        subprocess.run(["umount", "-l", str(tmp)], check=True)
