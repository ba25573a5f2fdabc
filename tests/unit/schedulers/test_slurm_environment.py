"""What a step's environment says. The values are those of a real Slurm 22.05, cut to what is read."""

from __future__ import annotations

from itertools import product

import pytest

from elaunch.schedulers.slurm import FIRST_PORT, PORTS, Allocation, allocation

JOB = {"SLURM_JOB_ID": "12", "SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_NUM_NODES": "4"}
STEP = {
    **JOB,
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-4]",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
    "SLURM_NODEID": "2",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_CPUS_ON_NODE": "1",
}


def read(environ: dict[str, str]) -> Allocation:
    found = allocation(environ)
    assert found is not None
    return found


def test_a_step_over_all_nodes() -> None:
    found = read(STEP)
    assert (found.nodes, found.node) == (("n1", "n2", "n3", "n4"), 2)
    assert (found.tasks, found.tasks_on, found.cpus, found.gpus) == (4, (1, 1, 1, 1), 1, None)
    assert (found.name, found.restarts, found.floor, found.ends_at) == ("slurm-12.0", 0, 0, None)
    assert found.endpoints == tuple(f"n{n}:{found.port}" for n in (1, 2, 3))


def test_nothing_is_said_outside_of_slurm() -> None:
    assert allocation({}) is None
    assert allocation({"SLURM_JOB_ID": "", "SLURM_CONF": "/etc/slurm.conf"}) is None


def test_a_step_of_fewer_nodes_is_those_and_not_the_allocation() -> None:
    """``srun -N2 -n2`` in an allocation of three; ``--overlap`` on one of them."""
    small = {**STEP, "SLURM_STEP_NODELIST": "n[2-3]", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    assert read({**small, "SLURM_NODEID": "1"}).nodes == ("n2", "n3")
    one = {**small, "SLURM_STEP_ID": "1", "SLURM_STEP_NODELIST": "n1", "SLURM_STEP_TASKS_PER_NODE": "1"}
    assert read({**one, "SLURM_NODEID": "0"}).name == "slurm-12.1"


def test_a_batch_script_is_no_step() -> None:
    assert read({**JOB, "SLURM_NODEID": "0", "SLURM_PROCID": "0"}).step is None
    for special in ("4294967290", "4294967291", "4294967292"):
        assert read({**STEP, "SLURM_STEP_ID": special}).step is None
    assert read(JOB).nodes == ("n1", "n2", "n3", "n4")
    assert read(JOB).name == "slurm-12"


def test_a_step_over_a_heterogeneous_job_has_the_nodes_of_all_its_components() -> None:
    het = {
        **STEP,
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "n1",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "n[2-3]",
        "SLURM_STEP_NODELIST": "n[1-3]",
        "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
        "SLURM_STEP_NUM_TASKS": "3",
    }
    assert (read(het).nodes, read(het).node) == (("n1", "n2", "n3"), 2)


def test_a_task_of_an_array_has_its_own_name_and_port() -> None:
    array = {**STEP, "SLURM_JOB_ID": "5", "SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "3"}
    assert read(array).name == "slurm-4_3.0"
    assert read(array).port != read({**array, "SLURM_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "7"}).port


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({**STEP, "SLURM_STEP_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2"}, 2),
        ({**STEP, "SLURM_STEP_GPUS": "3", "SLURM_JOB_GPUS": "0,1,2,3"}, 1),
        ({**STEP, "SLURM_JOB_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2"}, None),
        ({**JOB, "SLURM_JOB_GPUS": "0,1"}, 2),
        ({**JOB, "SLURM_GPUS_ON_NODE": "8"}, 8),
        (JOB, None),
    ],
)
def test_gpus_are_those_of_the_step(environ: dict[str, str], gpus: int | None) -> None:
    assert read(environ).gpus == gpus


def test_a_job_that_is_started_again_keeps_its_name_and_numbers_on() -> None:
    first, third = read(STEP), read({**STEP, "SLURM_RESTART_COUNT": "2"})
    assert (third.name, third.incarnation) == (first.name, first.incarnation)
    assert third.port != first.port  # nothing of the first is met there
    assert third.floor > read({**STEP, "SLURM_RESTART_COUNT": "1"}).floor > first.floor


def test_the_end_of_the_job_where_slurm_tells_it() -> None:
    assert read({**STEP, "SLURM_JOB_END_TIME": "1796047421"}).ends_at == 1796047421.0


def test_jobs_and_steps_near_each_other_share_no_port() -> None:
    ports = {read({**STEP, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}).port for job, step in near()}
    assert len(ports) == len(list(near()))
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS < 32_768 for port in ports)


def near() -> product[tuple[int, int]]:
    return product(range(70_000, 70_400), range(30))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SLURM_JOB_ID", "x"),
        ("SLURM_JOB_ID", "²"),
        ("SLURM_STEP_NODELIST", "n[1-"),
        ("SLURM_NODEID", "4"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_STEP_TASKS_PER_NODE", "one"),
        ("SLURM_RESTART_COUNT", "-1"),
        ("SLURM_STEP_NUM_TASKS", "9" * 40),
    ],
)
def test_what_slurm_would_not_write_is_named(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name}="):
        allocation({**STEP, name: text})
