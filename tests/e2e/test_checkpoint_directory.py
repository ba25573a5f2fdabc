"""Two jobs that are pointed at one directory of checkpoints: the second is refused, and says so in one line.

No restart would mend it: the job ends at once, with an exit code of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.checkpoint.storages import layout
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch]


def test_the_second_job_is_refused(job: MakeJob, tmp_path: Path) -> None:
    options = ["--standalone", "--nproc-per-node=2", "--max-restarts=3"]
    first = job(*options, "--rdzv-id=first", program=[str(PROGRAMS / "resaving.py")])
    # Each rank's words in a file of its own: on one console the traceback of one runs into that of the other.
    files = ("--redirects=3", f"--log-dir={tmp_path}/logs")
    second = job(*options, *files, "--rdzv-id=second", program=[str(PROGRAMS / "resaving.py")])
    shared = str(first.out / "checkpoints")
    running = first.agent(CHECKPOINTS=shared)
    wait_until("the first job saves", lambda: list((first.out / "checkpoints").glob("step-*")))
    refused = second.agent(CHECKPOINTS=shared)
    assert refused.wait() == 97, refused.output()
    sentence = f"{shared}: job first generation 1 on "
    said = [path.read_text() for path in sorted((tmp_path / "logs").rglob("stderr.log"))]
    lines = [line for text in (refused.output(), *said) for line in text.splitlines()]
    assert any(f"elaunch.errors.DirectoryInUseError: {sentence}" in line for line in lines), lines
    told = [line for line in lines if line.startswith(f"checkpoint_refused: {sentence}")]
    assert len(told) == 1, lines
    assert "give each job a directory of its own" in told[0]
    assert any("directory_in_use" in line and sentence in line for line in lines), lines
    assert len([line for line in lines if "checkpoint_refused" in line]) == 1, "it was not tried again"
    assert not list(second.out.glob("*.restored"))
    first.finish()
    assert running.wait() == 0, running.output()
    assert [layout.claim_of(path.name) for path in (first.out / "checkpoints" / layout.CLAIMS).iterdir()] == [1]
