"""``elaunch qualify`` for real, with a few of its cells: the report tells what came of each, and the judge can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from elaunch.qualify.cells import Outcome
from elaunch.qualify.report import Report, read
from tests.e2e.harness import MARK, ROOT, marked, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(600)]


def started(output: Path, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "elaunch", "qualify", "--output", str(output), *words]
    output.mkdir(parents=True)
    temporary = output.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), MARK: str(output), "TMPDIR": str(temporary)}
    with (output / "printed").open("wb") as log:
        return subprocess.Popen(argv, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def report(output: Path) -> Report:
    return read((output / "report.json").read_text())


def logs(output: Path) -> str:
    return "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(output.glob("logs/*.log")))


def left(output: Path) -> list[psutil.Process]:
    return marked(str(output))


def test_a_quick_run_with_a_few_cells(tmp_path: Path) -> None:
    """Launches, a collective, trainings, a fault with its recovery; one result is falsified, and found."""
    output, spoilt = tmp_path / "out", "collectives/all-reduce/float32/contiguous"
    wanted = (
        "launch/budget",
        spoilt,
        "ddp/bucketing",
        "mesh/3d",
        "faults/kill/backward",
        "faults/sleep/backward",
        "checkpoint/identical",
    )
    process = started(output, "--quick", *(f"--only={name}" for name in wanted), f"--spoil={spoilt}")
    code = process.wait(500)
    found = report(output)
    results = {result.name: result for result in found.cells}
    assert set(results) == set(wanted)
    assert code == 1, (output / "printed").read_text()
    bad = results.pop(spoilt)
    assert bad.outcome is Outcome.FAILED
    assert "rank 1: all-reduce of 1024 bytes: element 0 is 14.0, expected 13" in bad.why
    assert {name: r.why for name, r in results.items() if r.outcome is not Outcome.OK} == {}, logs(output)

    fault = results["faults/kill/backward"]
    assert "rank 1" in fault.reason
    assert "SIGKILL" in fault.reason
    assert fault.detection is not None
    assert fault.first_step is not None
    assert fault.first_step > fault.detection
    assert fault.lost_steps is not None
    assert fault.phases["start"] > 0
    assert "steps were done again" in results["checkpoint/identical"].reason
    # The kill may have come right after a save: another one in the middle of a save has steps surely done again.
    assert "kill SIGKILL at save: the rank has ended" in (output / "logs" / "faults.log").read_text()

    assert found.partial == ""
    assert [rank["rank"] for rank in found.ranks] == [0, 1]
    assert found.bootstrap["init_process_group"] > 0
    assert found.topology[0]["digest"]
    assert "rank 1: all-reduce of 1024 bytes" in (output / "report.html").read_text()
    wait_until("nothing is left", lambda: not left(output))
    assert list((output / "logs" / "evidence").glob("**/evidence/*")), "the stacks of a hang are kept with the report"
    assert [path.name for path in (output.parent / "tmp").iterdir() if "evidence" in path.name] == []


def test_an_interrupted_run_leaves_a_partial_report_and_nothing_else(tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = started(output, "--only=launch/budget", "--only=faults/sleep/backward")
    wait_until("the job with the faults", lambda: (output / "logs" / "faults.log").exists())
    wait_until("its ranks", lambda: len(left(output)) > 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    found = report(output)
    assert found.partial == "interrupted"
    assert not found.passed
    by_name = {result.name: result for result in found.cells}
    assert by_name["launch/budget"].outcome is Outcome.OK
    assert by_name["faults/sleep/backward"].outcome is Outcome.NOT_RUN
    assert "interrupted" in by_name["faults/sleep/backward"].why
    assert "This report is partial: interrupted." in (output / "report.html").read_text()
    wait_until("nothing is left", lambda: not left(output))


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    """What it has started ends with it, though nobody tells it to."""
    output = tmp_path / "out"
    process = started(output, "--only=faults/sleep/backward")
    wait_until("the job with the faults", lambda: (output / "logs" / "faults.log").exists())
    wait_until("its spawner and its etcd", lambda: len(left(output)) > 4)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    wait_until("nothing is left", lambda: not left(output))
