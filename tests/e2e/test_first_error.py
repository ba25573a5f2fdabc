"""The first error of a job is told at once, and is the last thing that is read, whatever else is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch]


@pytest.mark.parametrize("start", ["warm", "exec"])
def test_an_exception_is_told_without_record(job: MakeJob, tmp_path: Path, start: str) -> None:
    program = tmp_path / "raising.py"
    program.write_text('import torch\n\nraise RuntimeError("of the program")\n')
    agent = job().agent(f"--start={start}", program=[str(program)])
    assert agent.wait() == 1
    assert "message=RuntimeError: of the program" in agent.output()


_CAUSE = """
import json, os, sys, time
mark, seconds = sys.argv[1], float(sys.argv[2])
if os.environ["RANK"] == "1":
    told = {"message": "ValueError: the cause", "extraInfo": {"timestamp": repr(time.time())}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": told}, file)
    open(mark, "w").close()
    time.sleep(seconds)
    sys.exit(1)
while not os.path.exists(mark):
    time.sleep(0.01)
sys.exit(3)
"""


@pytest.mark.parametrize(("seconds", "rank", "code"), [(0.4, 1, 1), (60.0, 0, 3)])
def test_who_failed_first_is_to_blame_though_it_ends_later(
    job: MakeJob, tmp_path: Path, seconds: float, rank: int, code: int
) -> None:
    """Unless it does not end: then the peer that did is told, after a moment."""
    program = tmp_path / "cause.py"
    program.write_text(_CAUSE)
    begin = time.monotonic()
    words = [str(program), str(tmp_path / "mark"), str(seconds)]
    agent = job().agent("--start=exec", "--nproc-per-node=2", program=words)
    assert agent.wait() == code, agent.output()
    assert time.monotonic() - begin < 50.0
    (told,) = re.findall(r"rank_failed: (rank \d)", agent.output())
    assert told == f"rank {rank}"
    assert ("ValueError: the cause" in agent.output()) == (rank == 1)


_VICTIM = """
import json, os, signal, sys, time
mark, how = sys.argv[1], sys.argv[2]

def ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True

if os.environ["RANK"] == "0":
    while not os.path.exists(mark + ".pid"):
        time.sleep(0.01)
    peer = int(open(mark + ".pid").read())
    message = "RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:12720: Connection reset by peer"
    told = {"message": message if how == "7" else "what torch has not said so far", "extraInfo": {}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": told}, file)
    open(mark, "w").close()
    while not ended(peer):
        time.sleep(0.01)
    time.sleep(0.6)
    sys.exit(1)
with open(mark + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(mark + ".new", mark + ".pid")
while not os.path.exists(mark):
    time.sleep(0.01)
time.sleep(0.1)
sys.exit(7) if how == "7" else os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("how", "code"), [("7", 7), ("signal", 137)])
def test_whom_a_peer_broke_away_from_is_not_to_blame(job: MakeJob, tmp_path: Path, how: str, code: int) -> None:
    """Its error is older than the other's end, which is noticed later than its connections break."""
    program = tmp_path / "victim.py"
    program.write_text(_VICTIM)
    words = [str(program), str(tmp_path / "mark"), how]
    agent = job().agent("--start=exec", "--nproc-per-node=2", program=words)
    assert agent.wait() == code, agent.output()
    assert re.findall(r"rank_failed: (rank \d)", agent.output()) == ["rank 1"]


def test_a_flood_does_not_bury_the_first_error(tmp_path: Path) -> None:
    """Of a reader that is slower than the ranks print."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OUT": str(tmp_path), "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "elaunch", "--nproc-per-node=8", str(PROGRAMS / "flooding.py")]
    agent = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    pieces: list[bytes] = []

    def read() -> None:
        assert agent.stdout is not None
        while data := os.read(agent.stdout.fileno(), 65536):
            pieces.append(data)
            time.sleep(0.005)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert agent.wait(90) == 1
    finally:
        agent.kill()
        agent.wait(10)
        reader.join(60)
        assert agent.stdout is not None
        agent.stdout.close()
    text = b"".join(pieces).decode()
    assert text.count("prints and prints") > 1000
    (told,) = re.findall(r"warning: rank_failed: .*", text)
    assert "rank 3 (local rank 3, pid" in told
    assert "exited with code 1" in told
    assert "message=RuntimeError: the first error" in told
    report = text[text.rindex("flooding.py FAILED") :]
    last = report[report.rindex("Root Cause (first observed failure):") :]
    assert "rank      : 3 (local_rank: 3)" in last
    assert "RuntimeError: the first error" in last
    assert re.search(r'File ".*flooding.py", line \d+, in <module>', last)
    assert last.rstrip().endswith("=" * 20), "nothing comes after it"
