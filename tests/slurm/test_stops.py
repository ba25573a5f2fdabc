"""Slurm ends a job: it saves, ends in order, and is started again exactly where work remains."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elaunch.schedulers.slurm import GENERATIONS
from tests.slurm.batch import PROGRAM, Batch
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@pytest.fixture(scope="module", autouse=True)
def limited(cluster: Cluster) -> Iterator[Batch]:
    """A job of one minute, the least that Slurm takes, with no warning: it runs beside the other tests."""
    out = cluster.home / "out" / "limited"
    out.mkdir()
    job = Batch(cluster, out)
    job.train("plain.sbatch", options=("--nodes=1", "--nodelist=n1", "--time=1", "--signal=USR2@0"))
    job.started(1)
    yield job
    job.close()


def goes_on(batch: Batch, ranks: int, saved: int) -> None:
    """The job is started again, and from where it was."""
    batch.at_once()
    again = batch.started(ranks, restarts=1)
    assert {e["step"] for e in again} == {saved}
    assert {e["generation"] for e in again} == {GENERATIONS + 1}
    assert {e["job"] for e in again} == {e["job"] for e in batch.events("start", restarts=0)}


def test_the_warning_before_the_time_limit_leaves_time_to_save_and_the_job_goes_on(batch: Batch) -> None:
    # Slurm looks at limits each 30 s, and may warn as much too early: so 20 to 50 s after the start, with ranks there.
    batch.train("plain.sbatch", options=("--nodes=3", "--time=2", "--signal=USR1@70"))
    batch.started(3)
    noticed = batch.wait("all to be noticed", lambda: len(e := batch.events("noticed")) == 3 and e)
    saved = batch.step_of()
    assert saved == next(e["step"] for e in noticed if e["rank"] == 0)
    assert all(40 < e["left"] < 100 for e in noticed)  # what Slurm left, not the grace
    goes_on(batch, 3, saved)
    assert "exit code 85: work remains; asked for another start" in batch.log()


def test_a_preempted_job_saves_and_goes_on(batch: Batch) -> None:
    batch.train("plain.sbatch", options=("--nodes=1", "--nodelist=n2", "--exclusive"))
    batch.passes(5)
    batch.cluster.run(
        "sbatch", "--partition=first", "--nodelist=n2", "--exclusive", "--output=/dev/null", "--wrap=true"
    )
    batch.wait("the notice", lambda: batch.events("noticed"))
    goes_on(batch, 1, batch.step_of())


def test_a_cancelled_job_saves_and_is_not_started_again(batch: Batch) -> None:
    batch.train("plain.sbatch", options=("--nodes=4",))
    batch.started(4)  # all, as passes tells of rank 0
    batch.passes(10)
    batch.cluster.run("scancel", batch.jobs[0])
    batch.becomes("CANCELLED")
    assert len(batch.events("noticed")) == 4
    assert batch.step_of() >= 10
    assert "is not started again: Slurm has it as CANCELLED" in batch.log()
    batch.nothing_runs(batch.jobs[0])


def test_the_batch_script_may_hear_the_warning_and_hand_it_on(batch: Batch) -> None:
    """``--signal=B:USR1@...`` is to the script alone, which has its srun in the background then."""
    script = batch.out / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1\n"
        "trap 'scancel --signal=USR1 $SLURM_JOB_ID' USR1; trap : TERM\n"
        'srun --kill-on-bad-exit=0 elaunch --start=exec "$@" & srun=$!\n'
        "wait $srun; code=$?; while kill -0 $srun 2>/dev/null; do wait $srun; code=$?; done\n"
        "elaunch slurm requeue $code\n"
    )
    batch.submit(script, str(PROGRAM))
    batch.started(2)
    batch.passes(5)
    batch.cluster.run("scancel", "--batch", "--signal=USR1", batch.jobs[0])
    batch.wait("the notice", lambda: len(batch.events("noticed")) == 2)
    goes_on(batch, 2, batch.step_of())


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ((), "3", "the program failed"),
        (("--max-restarts=20", "--crash-loop=2"), "93", "a crash loop would go on"),
    ],
    ids=["code error", "crash loop"],
)
def test_what_would_fail_again_is_not_started_again(
    batch: Batch, options: tuple[str, ...], code: str, why: str
) -> None:
    (batch.out / "fail-0").touch()
    batch.train("plain.sbatch", *options, options=("--nodes=1",))
    batch.becomes("FAILED")
    assert f"exit code {code}: job {batch.jobs[0]} is not started again: {why}" in batch.log()


def test_the_time_limit_without_a_warning_is_a_notice_too(limited: Batch) -> None:
    """``KillWait`` is all that there is then."""
    noticed = limited.wait("the notice", lambda: limited.events("noticed"), 120)
    assert noticed[0]["left"] < 25
    goes_on(limited, 1, noticed[0]["step"])  # as it was saved then; it may have gone on since
