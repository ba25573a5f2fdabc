"""What is read from a pod's environment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.schedulers.kubernetes import GENERATIONS, Pod, pod, siblings

INDEXED = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": "train-3", "JOB_COMPLETION_INDEX": "3"}
JOBSET = {
    **INDEXED,
    "HOSTNAME": "run-workers-1-2",
    "JOB_COMPLETION_INDEX": "2",
    "JOBSET_NAME": "run",
    "JOBSET_JOB_INDEX": "1",
    "JOBSET_REPLICAS": "2",
    "JOBSET_RESTART_ATTEMPT": "3",
    "ELAUNCH_POD_COUNT": "4",
    "ELAUNCH_POD_NAMESPACE": "ml",
}


def read(environ: dict[str, str]) -> Pod:
    found = pod(environ)
    assert found is not None
    return found


def test_outside_of_a_pod_there_is_nothing() -> None:
    assert pod({"HOSTNAME": "train-3"}) is None


def test_a_pod_that_says_nothing_else_has_the_grace_that_kubernetes_has() -> None:
    here = read({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": "notebook-0"})
    assert (here.index, here.job, here.time_to_leave) == (None, "", 25)
    assert here.place(4) == -1
    assert here.endpoints(4) == ()


def test_an_indexed_job_tells_its_name_by_the_name_of_the_host() -> None:
    here = read(INDEXED)
    assert (here.job, here.index, here.nodes, here.id) == ("train", 3, None, "train")
    assert here.endpoints(2) == ("train-0.train:29400", "train-1.train:29400")
    assert here.place(4) == 3


def test_a_host_name_of_its_own_tells_no_job() -> None:
    """On the host's network the pod is called as the machine."""
    assert read({**INDEXED, "HOSTNAME": "gke-node-7"}).endpoints(4) == ()


def test_a_full_host_name_tells_the_service() -> None:
    here = read({**INDEXED, "HOSTNAME": "train-3.peers.ml.svc.cluster.local"})
    assert here.endpoints(1) == ("train-0.peers:29400",)


def test_what_the_manifest_says_comes_first() -> None:
    more = {
        "ELAUNCH_POD_JOB": "x",
        "ELAUNCH_POD_INDEX": "1",
        "ELAUNCH_POD_SUBDOMAIN": "s",
        "ELAUNCH_POD_NAMESPACE": "n",
    }
    here = read({**INDEXED, **more})
    assert (here.index, here.id, here.endpoints(1)) == (1, "n.x", ("x-0.s:29400",))


def test_the_jobs_of_a_jobset_make_one_job() -> None:
    here = read(JOBSET)
    assert (here.nodes, here.place(8), here.id) == (8, 6, "ml.run")
    assert here.endpoints(8)[3:5] == ("run-workers-0-3.run:29400", "run-workers-1-0.run:29400")
    assert (here.floor, here.incarnation) == (3 * GENERATIONS, "kubernetes:ml.run")


def test_one_job_of_a_jobset_keeps_its_number_in_its_name() -> None:
    here = read({**JOBSET, "HOSTNAME": "run-workers-0-2", "JOBSET_JOB_INDEX": "0", "JOBSET_REPLICAS": "1"})
    assert (here.nodes, here.place(4)) == (4, 2)
    assert here.endpoints(2) == ("run-workers-0-0.run:29400", "run-workers-0-1.run:29400")


def test_what_the_operator_numbers_is_taken_as_it_is() -> None:
    here = read({**INDEXED, "ELAUNCH_POD_FLOOR": "300000", "ELAUNCH_POD_INCARNATION": "3f2a-11"})
    assert (here.floor, here.incarnation) == (300000, "3f2a-11")
    assert (read(INDEXED).floor, read(INDEXED).incarnation) == (0, "")


@pytest.mark.parametrize(("grace", "left"), [("120", 115), ("30", 25), ("5", 4), ("0", 0)])
def test_some_of_the_grace_is_kept(grace: str, left: float) -> None:
    assert read({**INDEXED, "ELAUNCH_GRACE_PERIOD": grace}).time_to_leave == left


@pytest.mark.parametrize(
    ("listed", "gpus"),
    [
        ("GPU-4f0a-1,GPU-4f0a-2", 2),
        ("MIG-GPU-1/3/0", 1),
        ("all", None),
        ("void", None),
        ("", None),
        ("0,1", None),
    ],
)
def test_gpus_are_counted_only_where_they_are_named(listed: str, gpus: int | None) -> None:
    assert read({**INDEXED, "NVIDIA_VISIBLE_DEVICES": listed}).gpus == gpus


@pytest.mark.parametrize(
    "wrong",
    [
        {"JOB_COMPLETION_INDEX": "x"},
        {"ELAUNCH_POD_INDEX": "-1"},
        {"ELAUNCH_POD_COUNT": "0"},
        {"ELAUNCH_POD_JOB": "a/b"},
        {"ELAUNCH_GRACE_PERIOD": "soon"},
        {"JOBSET_RESTART_ATTEMPT": "9" * 40},
    ],
)
def test_what_kubernetes_would_not_write_is_refused_by_name(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}=.*: expected"):
        pod({**INDEXED, **wrong})


def test_the_pods_beside_the_first_are_known_by_its_name() -> None:
    assert siblings("tj-node-0-0.tj", 3, 29500) == (
        "tj-node-0-0.tj:29500",
        "tj-node-0-1.tj:29500",
        "tj-node-0-2.tj:29500",
    )
    assert siblings("train-master", 3, 29500) == ()
    assert siblings("10.0.0.10", 3, 29500) == ()


@given(st.integers(1, 8), st.integers(1, 16))
def test_places_are_all_numbers_and_endpoints_are_their_hosts(sets: int, pods: int) -> None:
    base = Pod(job="j-w-0", index=0, pods=pods, sets=sets, subdomain="j")
    every = [replace(base, set=s, job=f"j-w-{s}", index=i) for s in range(sets) for i in range(pods)]
    nodes = sets * pods
    assert [one.place(nodes) for one in every] == list(range(nodes))
    told = {one.endpoints(nodes) for one in every}
    assert len(told) == 1
    hosts = [f"{one.job}-{one.index}.j:29400" for one in every]
    assert list(told.pop()) == hosts[:32]
