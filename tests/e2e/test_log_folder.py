"""A log folder that vanishes or fills under a running job: a warning names it, and the job goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import wait_until

# The first generation waits for a word and fails; the second one does well.
TEXT = """
import json, os, sys, time
from pathlib import Path
out, generation = Path(os.environ["OUT"]), os.environ["ELAUNCH_GENERATION"]
print("begun", generation, flush=True)
line = {"event": "start", "generation": int(generation), "pid": os.getpid(), "t": time.monotonic()}
(out / f"{generation}-0.jsonl").write_text(json.dumps(line) + "\\n")
if generation == "1":
    while not (out / "go").exists():
        time.sleep(0.02)
    BODY
    sys.exit(7)
print("done", flush=True)
"""
FILL = """
    import elaunch
    from elaunch.worker.autoload import autoload
    autoload()  # as torch does when it is imported
    with open(os.environ["FULL"] + "/big", "wb", buffering=0) as big:
        try:
            while big.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == 28
    for n in range(2000):
        print("a line that has no room", n, flush=True)
    (out / "outlasted").touch()
"""
OPTIONS = ("--standalone", "--start=exec", "--max-restarts=1", "-t3", "-r3")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


def test_a_log_folder_that_vanishes_ends_no_job(job: MakeJob, tmp_path: Path, program: Path) -> None:
    program.write_text(TEXT.replace("BODY", "pass"))
    one = job(*OPTIONS, f"--log-dir={tmp_path}/logs", program=(str(program),))
    agent = one.agent()
    wait_until("the first generation", lambda: one.events("start", generation=1))
    shutil.rmtree(tmp_path / "logs")
    (one.out / "go").touch()
    assert agent.wait() == 0, agent.output()
    assert "log_folder_lost" in agent.output()
    assert f"{tmp_path}/logs" in agent.output().partition("log_folder_lost")[2].splitlines()[0]
    (log,) = (tmp_path / "logs").glob("*/attempt_1/0/stdout.log")
    assert log.read_text() == "begun 2\ndone\n"


def test_a_log_folder_that_fills_is_named_and_ends_no_job(job: MakeJob, tmp_path: Path, program: Path) -> None:
    """Neither is a print that finds no room a rank's end, nor the lack of a folder that of the next generation."""
    small = tmp_path / "small"
    small.mkdir()
    where = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=256k none {small} && exec "$@"', "sh")
    if os.getuid() or subprocess.run([*where, "true"], capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    program.write_text(TEXT.replace("    BODY", FILL))
    one = job(*OPTIONS, f"--log-dir={small}/logs", program=(str(program),), env={"FULL": str(small)})
    agent = one.agent(where=where)
    wait_until("the first generation", lambda: one.events("start", generation=1))
    (one.out / "go").touch()
    assert agent.wait() == 0, agent.output()
    assert (one.out / "outlasted").exists()
    said = agent.output()
    assert f"the log folder {small}/logs/" in said, "beside how the rank has failed"
    lost = said.partition("log_folder_lost")[2].splitlines()[0]
    assert "No space left on device" in lost
    assert f"{small}/logs" in lost
    assert "done" in said


def test_a_log_folder_that_is_full_at_the_start_is_refused(job: MakeJob, tmp_path: Path, program: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    fill = f"mount -t tmpfs -o size=64k none {small} && ! dd if=/dev/zero of={small}/big bs=4k 2>/dev/null"
    where = ("unshare", "-m", "sh", "-c", f'{fill} && exec "$@"', "sh")
    if os.getuid() or subprocess.run([*where, "true"], capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    program.write_text(TEXT)
    agent = job(*OPTIONS, f"--log-dir={small}/logs", program=(str(program),)).agent(where=where)
    assert agent.wait() == 71
    last = agent.output().splitlines()[-1]
    assert f"{small}/logs" in last
    assert "No space left on device" in last
