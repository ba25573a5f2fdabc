"""A job array of groups that make one job, at an etcd of the user's: one group is replaced, the others go on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from elaunch.rendezvous.binary import find_etcd
from tests.slurm.batch import Batch
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@pytest.fixture(scope="module")
def etcd(cluster: Cluster) -> Iterator[str]:
    """An etcd that all hosts reach."""
    where, data = f"{cluster.network}.254:{cluster.port + 5}", cluster.home / "etcd"
    urls = [f"--listen-client-urls=http://{where}", f"--advertise-client-urls=http://{where}"]
    peer = [f"--listen-peer-urls=http://127.0.0.1:{cluster.port + 6}", f"--data-dir={data}"]
    server = cluster.daemon([str(find_etcd().path), *urls, *peer], "etcd")
    yield where
    server.kill()
    server.wait(10)
    shutil.rmtree(data, ignore_errors=True)


def test_a_task_of_the_array_is_replaced_and_the_others_go_on(etcd: str, batch: Batch) -> None:
    conf = "--rdzv-conf=lease_ttl=5,last_call_timeout=3"
    job = batch.train("groups.sbatch", conf, options=("--array=0-2",), ELAUNCH_ENDPOINT=etcd)
    batch.started(3)
    assert {e["job"] for e in batch.events()} == {f"elaunch-{job}"}
    saved = batch.passes(15)
    batch.cluster.run("scancel", "--signal=TERM", f"{job}_1")  # of this group alone
    batch.wait("the rest to go on", lambda: [e for e in batch.events("start", world=2) if e["step"] >= saved])
    asked = "exit code 85: work remains; asked for another start"
    batch.wait("the group's end", lambda: asked in (batch.out / "log-1").read_text())
    alone = batch.events("start", world=2)[-1]["generation"]
    batch.at_once(f"{job}_1")
    again = batch.started(3, after=alone)
    assert sorted(e["restarts"] for e in again) == [0, 0, 1]
    assert len({e["step"] for e in again}) == 1
    assert again[0]["step"] >= saved
    assert all(batch.state(f"{job}_{task}") == "RUNNING" for task in range(3))
