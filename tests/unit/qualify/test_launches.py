"""The cells about launches: a job that hangs is not left to disturb the next cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.qualify import launches
from elaunch.qualify.cells import Outcome
from elaunch.qualify.matrix import cells
from elaunch.qualify.running import Runner, Where


def test_a_job_that_is_late_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = (one for one in cells("quick") if one.name == "launch/fixed")
    monkeypatch.setattr(launches, "_PATIENCE", 0.01)
    runner = Runner(Where(1), tmp_path, "1234")
    result = launches.run(runner, cell, False)
    assert result.outcome is Outcome.FAILED
    assert "did not end within" in result.why
    (job,) = runner.jobs
    assert job.process.returncode is not None
