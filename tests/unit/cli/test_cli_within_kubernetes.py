"""The command line in a pod."""

from __future__ import annotations

from typing import Any

import pytest

from elaunch.agent.options import Endpoint, LaunchOptions, Scheduled
from elaunch.cli.options import parse
from elaunch.errors import UsageError
from elaunch.schedulers.kubernetes import GENERATIONS
from tests.unit.cli.test_cli_within_slurm import ONE
from tests.unit.schedulers.test_kubernetes import INDEXED, JOBSET

FOUR = {**INDEXED, "ELAUNCH_POD_COUNT": "4"}
TRAINJOB = {
    **INDEXED,
    "HOSTNAME": "tj-node-0-1",
    "JOB_COMPLETION_INDEX": "1",
    "PET_NNODES": "3",
    "PET_NPROC_PER_NODE": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "tj-node-0-0.tj",
    "PET_MASTER_PORT": "29500",
}


def scheduled(options: LaunchOptions) -> Scheduled:
    assert options.scheduled is not None
    return options.scheduled


def hosts(options: LaunchOptions) -> list[str]:
    return [str(endpoint) for endpoint in options.endpoints]


def test_a_pod_of_a_counted_job_needs_no_option(script: str) -> None:
    options = parse([script], FOUR)
    assert (options.min_nodes, options.max_nodes, options.slots) == (4, 4, 1)
    assert (options.backend, options.standalone, options.job) == ("c10d", False, "train")
    assert hosts(options) == [f"train-{n}.train:29400" for n in range(4)]
    assert options.conf.is_host is False
    assert scheduled(options).place == 3
    assert options.warnings == ()


def test_the_first_pod_starts_the_etcd_whether_or_not_its_name_is_known_yet(script: str) -> None:
    first = {**FOUR, "HOSTNAME": "train-0", "JOB_COMPLETION_INDEX": "0"}
    assert parse([script], first).conf.is_host is True
    assert parse(["--rdzv-conf=lease_ttl=9", script], first).conf.lease_ttl == 9
    assert parse(["--rdzv-conf=is_host=false", script], first).conf.is_host is False


def test_nnodes_makes_one_job_of_an_indexed_job(script: str) -> None:
    options = parse(["--nnodes=2:4", script], INDEXED)
    assert (options.min_nodes, options.max_nodes, options.backend) == (2, 4, "c10d")


def test_without_a_number_of_pods_each_trains_by_itself_and_says_so(script: str) -> None:
    options = parse([script], INDEXED)
    assert (options.max_nodes, options.standalone) == (1, True)
    assert options.warnings == (
        "pod 3 of a job trains by itself: --nnodes, or ELAUNCH_POD_COUNT, makes one job of all",
    )
    assert parse(["--standalone", script], INDEXED).warnings == ()


def test_spares_are_pods_of_the_job(script: str) -> None:
    options = parse([script], {**FOUR, "PET_SPARES": "1", "PET_MIN_NODES": "2"})
    assert (options.min_nodes, options.max_nodes, options.recovery.spares) == (2, 3, 1)
    assert len(options.endpoints) == 4
    with pytest.raises(UsageError, match="--spares=4: expected fewer than 4"):
        parse(["--spares=4", script], FOUR)


def test_what_is_given_wins(script: str) -> None:
    given = ["--nnodes=2:3", "--rdzv-backend=etcd", "--rdzv-endpoint=e:1", "--rdzv-id=mine", "--nproc-per-node=3"]
    options = parse([*given, "--grace-period=7", script], {**FOUR, "NVIDIA_VISIBLE_DEVICES": "GPU-1"})
    assert (options.min_nodes, options.max_nodes, options.slots) == (2, 3, 3)
    assert (options.backend, options.endpoints, options.job) == ("etcd", (Endpoint("e", 1),), "mine")
    assert options.shutdown_timeout == 7
    assert options.conf.is_host is None


def test_there_are_as_many_ranks_as_gpus_that_the_pod_was_given(script: str) -> None:
    gpus = {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    assert parse([script], {**FOUR, **gpus}).slots == 2
    assert parse([script], {"KUBERNETES_SERVICE_HOST": "10.96.0.1", **gpus}).slots == 1  # as under torchrun


@pytest.mark.parametrize(("grace", "leave", "usual"), [("", 25, 25), ("600", 595, 25), ("10", 8, 8)])
def test_a_long_grace_is_for_leaving_only(script: str, grace: str, leave: float, usual: float) -> None:
    options = parse([script], {**FOUR, "ELAUNCH_GRACE_PERIOD": grace})
    assert (scheduled(options).leave_seconds, options.shutdown_timeout) == (leave, usual)


def test_sigterm_is_for_this_pod_and_another_takes_its_place(script: str) -> None:
    found = scheduled(parse([script], FOUR))
    assert (found.scheduler, found.whole, found.replaces) == ("Kubernetes", False, True)
    assert found.probe_file == "/tmp/elaunch-pod"
    assert scheduled(parse([script], {**FOUR, "ELAUNCH_PROBE_FILE": "/run/x"})).probe_file == "/run/x"


def test_a_later_start_of_a_jobset_numbers_its_generations_above_the_earlier_ones(script: str) -> None:
    options = parse([script], JOBSET)
    assert (options.max_nodes, options.job) == (8, "ml.run")
    assert (scheduled(options).floor, scheduled(options).place) == (3 * GENERATIONS, 6)


def test_a_trainjob_runs_as_torchrun_would_and_its_first_pod_may_be_lost(script: str) -> None:
    options = parse([script], TRAINJOB)
    assert (options.backend, options.max_nodes, options.slots) == ("static", 3, 2)
    assert (options.node_rank, options.owns_rank) == (1, True)
    assert hosts(options) == [f"tj-node-0-{n}.tj:29500" for n in range(3)]
    assert options.conf.is_host is False
    first = {**TRAINJOB, "HOSTNAME": "tj-node-0-0", "JOB_COMPLETION_INDEX": "0", "PET_NODE_RANK": "0"}
    assert parse([script], first).conf.is_host is True


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PET_NPROC_PER_NODE": "cpu"}, {}),
        ({"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "tj-node-0-0.tj"}, {"max_nodes": 1}),
        ({"PET_MAX_RESTARTS": "3"}, {"max_restarts": 3}),
    ],
)
def test_other_values_of_kubeflow_count_too(script: str, variables: dict[str, str], expected: dict[str, Any]) -> None:
    options = parse([script], {**TRAINJOB, **variables})
    assert {name: getattr(options, name) for name in expected} == expected


def test_an_elastic_pytorchjob_meets_where_kubeflow_says(script: str) -> None:
    environ = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "HOSTNAME": "pj-worker-1",
        "PET_NNODES": "1:3",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "pj-worker-0:23456",
        "PET_RDZV_ID": "pj",
        "PET_RDZV_CONF": "join_timeout=900",
        "PET_MAX_RESTARTS": "100",
    }
    options = parse([script], environ)
    assert (options.min_nodes, options.max_nodes, options.backend, options.job) == (1, 3, "c10d", "pj")
    assert hosts(options) == ["pj-worker-0:23456"]
    assert (options.conf.join_timeout, options.conf.is_host) == (900, None)
    assert scheduled(options).place == -1


def test_slurm_in_pods_is_slurm(script: str) -> None:
    assert scheduled(parse([script], {**FOUR, **ONE})).scheduler == "Slurm"


def test_a_variable_that_is_wrong_is_named(script: str) -> None:
    with pytest.raises(UsageError, match="ELAUNCH_POD_COUNT=many: expected a whole number"):
        parse([script], {**FOUR, "ELAUNCH_POD_COUNT": "many"})
