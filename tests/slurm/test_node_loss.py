"""A host dies in the middle of training."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elaunch.schedulers.slurm import GENERATIONS
from tests.slurm.batch import Batch
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@pytest.fixture
def crashing(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster of which hosts may crash: they are back afterwards, and in service."""
    yield cluster
    cluster.back()


def test_a_spare_takes_the_place_of_a_lost_node_in_the_same_allocation(crashing: Cluster, batch: Batch) -> None:
    job = batch.train("elastic.sbatch", "--rdzv-conf=lease_ttl=6", options=("--nodes=4",))
    first = [e["host"] for e in batch.started(3)]
    (spare,) = {"n1", "n2", "n3", "n4"} - set(first)
    victim = first[1] if first[1] != "n1" else first[2]  # on n1 is the batch script
    batch.wait("an etcd that the host is not the end of", lambda: "etcd_trio" in batch.log())
    saved = batch.passes(20)
    crashing.crash(int(victim[1:]))
    second = batch.started(3, generation=2)
    assert [e["host"] for e in second] == [spare if host == victim else host for host in first]  # all others keep ranks
    assert all(e["step"] >= saved for e in second)
    assert {e["restarts"] for e in second} == {0}
    assert batch.state() == "RUNNING"
    text = f"elaunch: host {victim} was lost"
    batch.wait("the host to be drained", lambda: text in crashing.run("sinfo", "-h", "-R", "-o", "%60E %n"))
    assert "host_failed" in batch.log()
    (batch.out / "finish").touch()
    batch.wait("the end of the training", lambda: len(batch.events("done", generation=2)) == 3, 180)
    batch.becomes("COMPLETED")
    assert f"exit code 0: job {job} is not started again: it is done" in batch.log()


def test_without_spares_slurm_starts_the_job_again_and_it_goes_on(crashing: Cluster, batch: Batch) -> None:
    batch.train("plain.sbatch", options=("--nodes=4",))
    batch.started(4)
    saved = batch.passes(20)
    crashing.crash(3)
    batch.becomes("PENDING")
    kept = batch.step_of()
    crashing.back()
    batch.at_once()
    again = batch.started(4, restarts=1)
    assert {e["generation"] for e in again} == {GENERATIONS + 1}
    assert {e["step"] for e in again} == {kept}
    assert kept >= saved


def test_a_batch_script_that_dies_with_its_host_leaves_no_job_that_holds_its_nodes(
    crashing: Cluster, batch: Batch
) -> None:
    """With ``--no-kill`` Slurm would let it stand to its time limit, without a script and in the end without a step."""
    conf = "--rdzv-conf=lease_ttl=5,etcd_timeout=5"  # the etcd has not spread yet, and dies with its host too
    batch.train("elastic.sbatch", conf, options=("--nodes=4",))
    batch.started(3)
    crashing.crash(1)
    batch.becomes("COMPLETING", "PENDING")
    batch.wait("no program left", lambda: not crashing.programs(batch.jobs[0]), 180)
    kept = batch.step_of()
    crashing.back()
    batch.at_once()
    assert {e["step"] for e in batch.started(3, restarts=1)} == {kept}
