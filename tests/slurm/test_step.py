"""``srun elaunch train.py`` in all the ways that srun starts it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.slurm.batch import PROGRAM, Batch
from tests.slurm.cluster import ROOT, Cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def srun(batch: Batch, *words: str, steps: int = 3, check: bool = True) -> str:
    env = {"OUT": str(batch.out), "STEPS": str(steps)}
    return batch.cluster.run("srun", *words, "elaunch", "--start=exec", str(PROGRAM), check=check, **env)


def test_a_step_needs_no_option_and_has_its_ranks_in_the_order_of_its_nodes(batch: Batch) -> None:
    srun(batch, "--nodes=4", "--ntasks-per-node=1")
    starts = batch.started(4)
    assert [(e["rank"], e["host"], e["generation"]) for e in starts] == [(n, f"n{n + 1}", 1) for n in range(4)]
    assert len(batch.events("done", step=3)) == 4
    batch.nothing_runs(starts[0]["job"].removeprefix("slurm-").removesuffix(".0"))


def test_granted_gpus_have_a_rank_each(batch: Batch) -> None:
    srun(batch, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=2")
    assert [e["host"] for e in batch.started(4)] == ["n1", "n1", "n2", "n2"]


def test_two_tasks_on_a_node_are_refused_by_all_of_them(batch: Batch) -> None:
    said = srun(batch, "--nodes=2", "--ntasks=4", "--distribution=cyclic", check=False)
    assert said.count("elaunch: error: srun started") == 4
    assert "srun --ntasks-per-node=1 elaunch --nproc-per-node=" in said
    assert "exit code 2" in said


def test_each_node_of_an_allocation_can_be_qualified_by_itself(batch: Batch) -> None:
    """The jobs of a qualification take nothing of the step's for theirs."""
    words = f"elaunch qualify --local=2 --only=launch --output={batch.out}/$SLURM_NODEID; exit $?"
    said = batch.cluster.run("srun", "--nodes=2", "--ntasks-per-node=1", "bash", "-c", words)
    assert said.count("4 ok, 0 failed, 0 not run") == 2, said
    for node in range(2):
        assert json.loads((batch.out / str(node) / "report.json").read_text())["passed"] is True


HETEROGENEOUS = """\
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=1
#SBATCH hetjob
#SBATCH --nodes=2 --ntasks-per-node=1
srun --het-group=0,1 elaunch --start=exec {program}
"""
SIDE_BY_SIDE = """\
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1
elaunch {program}; echo "alone: $?"
srun --nodes=2 --ntasks=2 elaunch --start=exec {program} &
OUT=$OUT/beside srun --overlap --nodes=1 --ntasks=1 elaunch --start=exec {program} &
wait
"""


def script(batch: Batch, text: str) -> Path:
    path = batch.out / "job.sh"
    path.write_text(text.format(program=PROGRAM))
    return path


def test_a_step_over_both_components_of_a_heterogeneous_job_is_one_job(batch: Batch) -> None:
    batch.submit(script(batch, HETEROGENEOUS), STEPS="3")
    assert len({e["host"] for e in batch.started(3)}) == 3
    batch.becomes("COMPLETED")


def test_steps_side_by_side_are_jobs_of_their_own_and_the_batch_script_is_refused(batch: Batch) -> None:
    (batch.out / "beside").mkdir()
    job = batch.submit(script(batch, SIDE_BY_SIDE), STEPS="3")
    batch.becomes("COMPLETED")
    both, (alone,) = batch.started(2), Batch(batch.cluster, batch.out / "beside").started(1)
    assert {both[0]["job"], alone["job"]} == {f"slurm-{job}.0", f"slurm-{job}.1"}
    assert both[0]["job"] == both[1]["job"]
    assert "this is one process in an allocation of 3 nodes: start one on each, srun" in batch.log()
    assert "alone: 2" in batch.log()


ANOTHER = """\
import time
from tests.slurm.cluster import Cluster
with Cluster(count=1) as cluster:
    print(cluster.home, cluster.name, flush=True)
    time.sleep(120)
"""


def test_nothing_of_a_killed_test_run_stays(cluster: Cluster) -> None:
    """The daemons of a Slurm die with the process that started them; the next Slurm removes the rest."""
    command = [sys.executable, "-c", ANOTHER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        home, name = other.stdout.readline().split() or ("it did not come up: ", "see its last words")
        assert len(mentioning(home)) >= 2
        other.kill()
    wait_until("all of it dead", lambda: not mentioning(home), 60)
    with Cluster(count=1, gpus=0) as after:
        assert after.run("srun", "hostname").endswith("n1\n")  # srun may say first that it had to wait
    assert not Path(home).exists()
    assert name not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    cluster.run("srun", "-N1", "true")  # works as before


def mentioning(home: str) -> list[int]:
    """What was started for the Slurm in a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURM_CONF", "").startswith(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
