"""The environment of a rank, without processes."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from elaunch.agent.environment import (
    Group,
    Place,
    line_prefix,
    substitute,
    with_thread_limit,
    worker_environment,
)
from elaunch.errors import StartError

PLACE = Place(
    rank=5,
    local_rank=1,
    world_size=8,
    local_world_size=4,
    group_rank=1,
    group_world_size=2,
    role="trainer",
    role_rank=3,
    role_world_size=6,
)
GROUP = Group(
    job="job",
    node_id="n1",
    generation=7,
    restart_count=2,
    max_restarts=3,
    master_addr="gpu-01",
    master_port=41000,
)


def test_everything_that_torchrun_sets_is_set() -> None:
    env = worker_environment({"PATH": "/bin"}, PLACE, GROUP, "/logs/error.json")
    assert env == {
        "PATH": "/bin",
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "trainer",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "6",
        "MASTER_ADDR": "gpu-01",
        "MASTER_PORT": "41000",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "job",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": "/logs/error.json",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "ELAUNCH_JOB": "job",
        "ELAUNCH_NODE_ID": "n1",
        "ELAUNCH_GENERATION": "7",
        "ELAUNCH_STORE_PORT": "41000",
    }


def test_what_is_asked_of_the_start_check_reaches_the_ranks() -> None:
    env = worker_environment({}, PLACE, replace(GROUP, start_check=False, allow_asymmetry=True))
    assert (env["ELAUNCH_START_CHECK"], env["ELAUNCH_ALLOW_ASYMMETRY"]) == ("0", "1")


def test_the_shells_own_values_give_way_or_stay() -> None:
    base = {"MASTER_PORT": "1", "RANK": "9", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "CUDA_VISIBLE_DEVICES": "4,5"}
    env = worker_environment(base, PLACE, GROUP)
    assert (env["MASTER_PORT"], env["RANK"]) == ("41000", "5")
    assert (env["TORCH_NCCL_ASYNC_ERROR_HANDLING"], env["CUDA_VISIBLE_DEVICES"]) == ("0", "4,5")


@pytest.mark.parametrize(("visible", "device"), [(None, "1"), ("4, 5", "5"), ("GPU-a,GPU-b", "GPU-b")])
def test_a_virtual_local_rank_sees_one_device(visible: str | None, device: str) -> None:
    base = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    env = worker_environment(base, PLACE, dataclasses.replace(GROUP, virtual_local_rank=True))
    assert (env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"]) == ("0", device)


def test_a_virtual_local_rank_without_a_device_is_an_error() -> None:
    with pytest.raises(StartError, match="local rank 1 has no device in CUDA_VISIBLE_DEVICES=3"):
        worker_environment({"CUDA_VISIBLE_DEVICES": "3"}, PLACE, dataclasses.replace(GROUP, virtual_local_rank=True))


def test_threads_are_limited_where_ranks_share_a_node() -> None:
    env, warning = with_thread_limit({}, 4)
    assert env == {"OMP_NUM_THREADS": "1"}
    assert warning is not None
    assert "OMP_NUM_THREADS" in warning
    assert with_thread_limit({}, 1) == ({}, None)
    assert with_thread_limit({"OMP_NUM_THREADS": "8"}, 4) == ({"OMP_NUM_THREADS": "8"}, None)


def test_the_local_rank_is_substituted() -> None:
    args = ("--dir=/x/${local_rank}", "$local_rank", "$$HOME", "${other}", "50%", "$")
    assert substitute(args, 3) == ("--dir=/x/3", "3", "$HOME", "${other}", "50%", "$")


def test_line_prefixes() -> None:
    assert line_prefix(None, PLACE) == "[trainer1]:"
    assert line_prefix("<${role_name} ${local_rank} ${rank} ${x}> ", PLACE) == "<trainer 1 5 ${x}> "
