"""Callbacks with the real libraries, two ranks: a killed rank, a notice, and the end, in one job of each library."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, ROOT, Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch]
STEPS = 160
TRAINERS = {
    "lightning": ("lightning.pytorch,torch._dynamo", "validation"),
    "transformers": ("transformers.trainer,torch._dynamo", "evaluation"),
}


@pytest.fixture(params=TRAINERS)
def trainer(request: pytest.FixtureRequest, job: MakeJob) -> tuple[Job, str]:
    library: str = request.param
    if find_spec(library) is None:  # not imported: that takes longer than the test
        pytest.skip(f"{library} is not installed")
    preload, section = TRAINERS[library]
    made = job(
        "--nproc-per-node=2",
        "--max-restarts=1",
        "--rdzv-id=trained",
        "--grace-period=60",
        f"--preload={preload}",
        program=(str(PROGRAMS / f"training_{library}.py"),),
    )
    made.env["ELAUNCH_RUNTIME_DIR"] = str(made.out / "runtime")
    made.env["OMP_NUM_THREADS"] = "1"
    return made, section


def steps(job: Job, generation: int) -> dict[int, float]:
    """The sum of the weights after each step, of rank 0."""
    return {e["step"]: e["sum"] for e in job.events("step", generation=generation, rank=0)}


def begin(job: Job, generation: int) -> dict[str, Any]:
    """How a generation began: ranks that went on from different steps would fail here."""
    first, second = job.events("begin", generation=generation)
    assert [first[name] for name in ("restored", "step", "sum")] == [
        second[name] for name in ("restored", "step", "sum")
    ]
    return first


@pytest.mark.timeout(600)
def test_a_killed_rank_a_notice_and_the_end(trainer: tuple[Job, str]) -> None:
    job, section = trainer
    agent = job.agent()
    wait_until("the second generation", lambda: len(steps(job, 2)) > 2, 300)

    resumed = begin(job, 2)
    assert resumed["restored"] == resumed["step"] == 10, "the last step committed before the kill at 13"
    assert resumed["sum"] == pytest.approx(steps(job, 1)[10])
    assert min(steps(job, 2)) == 11

    env = {**job.env, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    asked = [sys.executable, "-m", "elaunch", "restart", "trained", "--timeout=180"]
    done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr + job.outputs()
    ends = job.events("end", generation=2)
    assert len(ends) == 2
    assert {end["stopped"] for end in ends} == {True}
    (stopped_at,) = {end["step"] for end in ends}
    assert 12 < stopped_at < STEPS, "it should have been stopped on the way"

    assert agent.wait(300) == 0, job.outputs()
    last = begin(job, 3)
    assert last["restored"] == last["step"] == stopped_at, "what was saved on notice"
    assert last["sum"] == pytest.approx(steps(job, 2)[stopped_at])
    finished = job.events("end", generation=3)
    assert [(end["step"], end["stopped"], end["sections"]) for end in finished] == [(STEPS, False, 0)] * 2
    assert all(section in event["names"] for event in job.events("sections"))
    assert job.events("sections", generation=3)
