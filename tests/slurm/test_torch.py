"""A real training, with torch and ``elaunch.checkpoint``, over the end of its time."""

from __future__ import annotations

import re

import pytest

from elaunch.schedulers.slurm import GENERATIONS
from tests.slurm.batch import SCRIPTS, Batch
from tests.slurm.cluster import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(480)]


def test_a_training_goes_on_from_the_checkpoint_that_it_made_when_it_was_warned(batch: Batch) -> None:
    program = (str(ROOT / "examples" / "checkpoint.py"), str(batch.out / "run"), "2000")
    batch.submit(SCRIPTS / "plain.sbatch", *program, options=("--nodes=2",))
    batch.wait("some steps", lambda: "step 30 of 2 ranks" in batch.log(), 180)
    batch.cluster.run("scancel", "--signal=USR1", batch.jobs[0])
    batch.becomes("PENDING")
    last = max(int(step) for step in re.findall(r"step ([0-9]+) of 2 ranks", batch.log()))
    assert (batch.out / "run" / f"step-{last:08}").is_dir()
    batch.at_once()
    batch.wait("the next start", lambda: len(re.findall(rf"goes on from step {last}(?!\d)", batch.log())) == 2, 180)
    batch.wait("a later step", lambda: f"step {last // 10 * 10 + 20} of 2 ranks" in batch.log())
    told = batch.cluster.run("elaunch", "ckpt", "ls", "--json", str(batch.out / "run"))
    assert '"generation": 1' in told
    claims = [path.read_text() for path in (batch.out / "run" / ".elaunch" / "claims").iterdir()]
    assert any(f'"generation": {GENERATIONS + 1}' in claim for claim in claims), claims
