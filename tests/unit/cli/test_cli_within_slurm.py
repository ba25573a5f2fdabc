"""The command line inside of Slurm."""

from __future__ import annotations

import signal

import pytest

from elaunch.agent.options import Endpoint
from elaunch.cli.options import parse
from elaunch.errors import UsageError
from elaunch.schedulers.slurm import GENERATIONS
from tests.unit.schedulers.test_slurm_environment import JOB, STEP, read

PORT = read(STEP).port
ONE = {**STEP, "SLURM_STEP_NODELIST": "n1", "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "1"}
ONE["SLURM_STEP_TASKS_PER_NODE"] = "1"


def test_a_step_needs_no_option(script: str) -> None:
    options = parse([script], STEP)
    assert (options.min_nodes, options.max_nodes, options.slots) == (4, 4, 1)
    assert (options.backend, options.standalone) == ("c10d", False)
    assert options.endpoints == tuple(Endpoint(f"n{n}", PORT) for n in (1, 2, 3))
    assert (options.job, options.warnings) == ("slurm-12.0", ())
    assert options.scheduled is not None
    assert (options.scheduled.place, options.scheduled.notice_signal) == (2, signal.SIGUSR1)
    assert options.shutdown_timeout < 30  # Slurm's own KillWait


def test_spares_are_nodes_of_the_step(script: str) -> None:
    options = parse(["--spares=1", "--min-nodes=2", script], STEP)
    assert (options.min_nodes, options.max_nodes) == (2, 3)
    with pytest.raises(UsageError, match="--spares=4: expected fewer than 4"):
        parse(["--spares=4", script], STEP)


def test_what_is_given_wins(script: str) -> None:
    given = ["--nnodes=2:3", "--rdzv-backend=etcd", "--rdzv-endpoint=e:1", "--rdzv-id=mine", "--nproc-per-node=3"]
    options = parse([*given, "--grace-period=7", script], {**STEP, "SLURM_STEP_GPUS": "0,1"})
    assert (options.min_nodes, options.max_nodes, options.slots) == (2, 3, 3)
    assert (options.backend, options.endpoints, options.job) == ("etcd", (Endpoint("e", 1),), "mine")
    assert options.shutdown_timeout == 7


def test_a_variable_counts_as_given(script: str) -> None:
    options = parse([script], {**STEP, "PET_NNODES": "2", "PET_RDZV_ID": "mine"})
    assert (options.max_nodes, options.job) == (2, "mine")
    assert options.endpoints == tuple(Endpoint(f"n{n}", PORT) for n in (1, 2, 3))


def test_the_static_backend_gets_rank_and_master(script: str) -> None:
    options = parse(["--rdzv-backend=static", script], STEP)
    assert (options.node_rank, options.endpoints) == (2, (Endpoint("n1", PORT),))


def test_there_are_as_many_ranks_as_granted_gpus(script: str) -> None:
    assert parse([script], {**STEP, "SLURM_STEP_GPUS": "0,1,5"}).slots == 3
    assert parse(["--nproc-per-node=1", script], {**STEP, "SLURM_STEP_GPUS": "0,1,5"}).slots == 1


def test_cpu_is_what_was_granted_where_slurm_binds_nobody(script: str) -> None:
    assert parse(["--nproc-per-node=cpu", script], {**STEP, "SLURM_CPUS_ON_NODE": "1"}).slots == 1


def test_one_node_is_standalone_as_ever(script: str) -> None:
    options = parse([script], ONE)
    assert (options.standalone, options.job, options.max_nodes) == (True, "slurm-12.0", 1)
    assert parse(["--standalone", script], STEP).standalone


def test_a_later_start_numbers_its_generations_above_all_earlier_ones(script: str) -> None:
    first, second = parse([script], STEP).scheduled, parse([script], {**STEP, "SLURM_RESTART_COUNT": "1"}).scheduled
    assert first is not None
    assert second is not None
    assert (first.floor, second.floor) == (0, GENERATIONS)
    assert first.incarnation == second.incarnation != ""


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (JOB, "one process in an allocation of 4 nodes: start one on each, srun --ntasks-per-node=1 elaunch"),
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "2(x4)", "SLURM_STEP_NUM_TASKS": "8"},
            "srun started 2 tasks on n1.*srun --ntasks-per-node=1 elaunch --nproc-per-node=2",
        ),
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x3),3", "SLURM_STEP_NUM_TASKS": "6"},
            "srun started 3 tasks on n4.*srun --ntasks-per-node=1 elaunch --nproc-per-node=3",
        ),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "2"}, "2 tasks for a step on 4 nodes.*--nodes=4 --ntasks-per-node=1"),
        ({**STEP, "SLURM_STEP_NODELIST": "n[1-"}, "SLURM_STEP_NODELIST=n.1-: .*unset SLURM_JOB_ID"),
    ],
)
def test_what_is_not_one_agent_on_each_node_is_refused(script: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        parse([script], environ)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_it_is_taken_where_the_options_say_how_it_is_meant(script: str) -> None:
    two = {**STEP, "SLURM_STEP_TASKS_PER_NODE": "2(x4)", "SLURM_STEP_NUM_TASKS": "8"}
    options = parse(["--nnodes=8", "--rdzv-backend=c10d", "--rdzv-endpoint=n1", script], two)
    assert options.max_nodes == 8
    assert options.scheduled is not None
    assert options.scheduled.place == -1
    assert parse(["--standalone", script], JOB).standalone


def test_the_warning_signal_is_one_or_none(script: str) -> None:
    taken, none = parse(["--warning-signal=SIGUSR2", script], STEP), parse(["--warning-signal=none", script], STEP)
    assert taken.scheduled is not None
    assert none.scheduled is not None
    assert (taken.scheduled.notice_signal, none.scheduled.notice_signal) == (signal.SIGUSR2, None)
    for bad in ("USR9", "USR1,USR2"):
        with pytest.raises(UsageError, match="--warning-signal="):
            parse([f"--warning-signal={bad}", script], STEP)
