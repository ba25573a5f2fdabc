"""What programs and wrappers around torchrun rely on, line by line, with programs that need no torch."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.test_launch import free_port

pytestmark = pytest.mark.slow

TOLD = str(PROGRAMS / "told.py")


@pytest.fixture
def told(job: MakeJob) -> MakeJob:
    """Makes jobs of a program that says how it was started."""

    def make(*options: str, wish: str = "end", **fields: object) -> Job:
        return job("--start=exec", *options, program=(TOLD, wish), **fields)

    return make


def run(one: Job, *options: str, code: int = 0, **env: str) -> list[dict[str, object]]:
    """Run the one agent of a job to its end; what its ranks said, by rank."""
    agent = one.agent(*options, **env)
    assert agent.wait() == code, agent.output()
    return sorted(one.events("start"), key=lambda e: (e["generation"], e["rank"]))


# --- the program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "program", "argv"),
    [
        ((), (TOLD, "end", "--x=${local_rank}", "$$1"), [TOLD, "end", "--x=0", "$1"]),
        (("-m",), ("tests.programs.told", "end"), [TOLD, "end"]),
        (("--run-path",), (TOLD, "end"), [TOLD, "end"]),
        (("--no-python",), (sys.executable, "-u", TOLD, "end"), [TOLD, "end"]),
    ],
)
def test_every_kind_of_program(job: MakeJob, options: list[str], program: list[str], argv: list[str]) -> None:
    one = job("--start=exec", *options, program=program)
    (event,) = run(one)
    assert event["argv"] == argv
    assert event["unbuffered"]
    assert event["executable"] == sys.executable


def test_python_exec_names_the_interpreter(told: MakeJob, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nSEEN_EXECUTABLE="$0" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (event,) = run(told(), PYTHON_EXEC=str(python))
    assert event["executable"] == str(python)
    assert event["unbuffered"]


# --- logs ----------------------------------------------------------------------------------------------------------


def test_log_files_are_where_torchrun_puts_them(told: MakeJob, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    one = told(
        "--nproc-per-node=2", "--max-restarts=1", "--rdzv-id=run", "--role=trainer", f"--log-dir={logs}",
        "-r=1:3", "-t=0:1", "--duplicate-stdout-filters=keep", wish="fail_once",
    )  # fmt: skip
    events = run(one)
    assert [(e["generation"], e["env"]["TORCHELASTIC_RESTART_COUNT"]) for e in events][-2:] == [(2, "1"), (2, "1")]
    (folder,) = logs.iterdir()
    assert folder.name.startswith("run_")
    assert sorted(p.name for p in folder.iterdir()) == ["attempt_0", "attempt_1"]
    assert sorted(str(p.relative_to(folder)) for p in folder.glob("attempt_1/**/*") if p.is_file()) == [
        "attempt_1/0/stdout.log",
        "attempt_1/1/stderr.log",
        "attempt_1/1/stdout.log",
        "attempt_1/filtered_stdout.log",
    ]
    assert (folder / "attempt_1/1/stdout.log").read_text() == "out of 1: keep\nout of 1: drop\n"
    assert (folder / "attempt_1/filtered_stdout.log").read_text() == "[trainer0]:out of 0: keep\n"
    assert events[-1]["env"]["TORCHELASTIC_ERROR_FILE"] == str(folder / "attempt_1/1/error.json")
    output = one.agents[0].output()
    assert "[trainer0]:out of 0: drop\n" in output
    assert "out of 1" not in output
    assert "\nerr of 0\n" in output


def test_a_filter_hides_the_console_and_not_the_file(told: MakeJob, tmp_path: Path) -> None:
    one = told("--nproc-per-node=2", "--local-ranks-filter=1", f"--log-dir={tmp_path}/logs", "-t=3")
    run(one, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="<${role_name} ${local_rank} ${rank}>")
    output = one.agents[0].output()
    assert "<default 1 1>out of 1: keep\n" in output
    assert "of 0" not in output
    assert len(list(tmp_path.glob("logs/*/attempt_0/0/stdout.log"))) == 1


def test_temporary_log_folders_are_removed(told: MakeJob, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run(told(), TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []


def test_the_root_cause_is_copied_to_the_launchers_error_file(told: MakeJob, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    run(told("--nproc-per-node=1", wish="error_file"), code=6, TORCHELASTIC_ERROR_FILE=str(own))
    message = json.loads(own.read_text())["message"]
    assert "plain words" in json.dumps(message)


# --- several agents ------------------------------------------------------------------------------------------------


def test_each_role_counts_its_own_ranks(told: MakeJob, etcd: str) -> None:
    """With other numbers of ranks, as the actors and the learners of one job have."""
    two = told("--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=roles")
    agents = [two.agent("--role=actor", "--nproc-per-node=3"), two.agent("--role=learner", "--nproc-per-node=2")]
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    envs = [e["env"] for e in sorted(two.events("start"), key=lambda e: e["rank"])]
    assert [env["WORLD_SIZE"] for env in envs] == ["5"] * 5
    for role, size in (("actor", 3), ("learner", 2)):
        own = [env for env in envs if env["ROLE_NAME"] == role]
        assert [env["ROLE_RANK"] for env in own] == [str(n) for n in range(size)]
        assert {(env["ROLE_WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) for env in own} == {(str(size), str(size))}
        assert len({env["GROUP_RANK"] for env in own}) == 1


def test_static_ranks_are_the_node_ranks(told: MakeJob) -> None:
    """Whoever comes first."""
    two = told("--nnodes=2", "--nproc-per-node=1", f"--master-port={free_port()}", "--master-addr=127.0.0.1")
    late = two.agent("--node-rank=1", MINE="one")
    wait_until("node 1 waits", lambda: "rendezvous" in late.output() or "waiting" in late.output())
    first = two.agent("--node-rank=0", MINE="zero")
    assert [late.wait(), first.wait()] == [0, 0], two.outputs()
    ranks = {e["env"]["MINE"]: (e["env"]["GROUP_RANK"], e["rank"]) for e in two.events("start")}
    assert ranks == {"zero": ("0", 0), "one": ("1", 1)}


def test_an_ipv6_endpoint(told: MakeJob) -> None:
    two = told("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=[::1]:{free_port()}", "--rdzv-id=six")
    agents = [two.agent(), two.agent()]
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    envs = [e["env"] for e in two.events("start")]
    assert {env["MASTER_ADDR"] for env in envs} == {"::1"}


def test_the_same_id_again_is_another_run(told: MakeJob) -> None:
    """On the embedded etcd, of which the first run's last agent takes leave with it."""
    endpoint = f"--rdzv-endpoint=127.0.0.1:{free_port()}"
    two = told("--nnodes=2", "--rdzv-backend=c10d", endpoint, "--rdzv-id=again")
    for generation, (wish, code) in enumerate([("error_file", 6), ("end", 0), ("end", 0)], start=1):
        agents = [two.agent(program=(TOLD, wish)) for _ in range(2)]
        assert [agent.wait() for agent in agents] == [code, code], two.outputs()
        started = len(two.events("start", generation=generation))
        assert started == 2 or (started == 1 and code), two.outputs()  # a failure may stop a rank before its first word


def test_local_addr_is_what_the_others_are_told(told: MakeJob, etcd: str) -> None:
    two = told("--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=addr")
    agents = [two.agent("--local-addr=127.0.0.1"), two.agent("--local-addr=127.0.0.1", "--node-rank=0")]
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert {e["env"]["MASTER_ADDR"] for e in two.events("start")} == {"127.0.0.1"}


# --- signals -------------------------------------------------------------------------------------------------------


def test_an_ignored_hangup_stays_ignored(told: MakeJob) -> None:
    one = told(wish="wait")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
    try:
        agent = one.agent()
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until("the rank runs", lambda: one.events("start"))
    agent.kill(signal.SIGHUP)
    assert agent.process.poll() is None
    one.finish()
    assert agent.wait() == 0, agent.output()


# --- what torch's agent reads from its environment -----------------------------------------------------------------


def test_the_watchdog_ends_the_worker_that_missed_its_timer_and_no_agent(told: MakeJob, tmp_path: Path) -> None:
    pipe = tmp_path / "timer"
    one = told("--nproc-per-node=2", wish="timer")
    env = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": str(pipe)}
    run(one, code=137, **env)
    assert "the watchdog timer 'step' expired" in one.agents[0].output()
    assert not pipe.exists()


def test_the_watchdog_names_its_pipe_to_the_ranks(told: MakeJob) -> None:
    (event,) = run(told(), TORCHELASTIC_ENABLE_FILE_TIMER="1")
    path = Path(event["env"]["TORCHELASTIC_TIMER_FILE"])
    assert path.name.startswith("watchdog_timer_")
    assert not path.exists()


def test_the_health_port_answers_while_the_job_runs(told: MakeJob) -> None:
    port = free_port()
    one = told(wish="wait")
    agent = one.agent(TORCHELASTIC_HEALTH_CHECK_PORT=str(port))
    wait_until("the rank runs", lambda: one.events("start"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert answer.status == 200
    one.finish()
    assert agent.wait() == 0, agent.output()
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) != 0


STUCK = {"STUCK": "1", "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "0.5"}


def test_a_node_with_a_rank_in_uninterruptible_sleep_is_not_used_again(told: MakeJob) -> None:
    one = told("--max-restarts=3", "--shutdown-timeout=1", wish="stuck")
    assert {e["generation"] for e in run(one, code=71, **STUCK)} == {1}
    assert "uninterruptible sleep (D state)" in one.agents[0].output().split("Root Cause")[1]


def test_the_job_goes_on_without_that_node(told: MakeJob, etcd: str) -> None:
    two = told(
        "--nnodes=1:2", "--max-restarts=3", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=stuck",
        "--shutdown-timeout=1", wish="stuck",
    )  # fmt: skip
    bad, good = two.agent(**STUCK), two.agent(NODE="good")
    assert [bad.wait(), good.wait()] == [71, 0], two.outputs()
    last = [e for e in two.events("start") if e["generation"] == 2]
    assert [(e["env"]["NODE"], e["env"]["WORLD_SIZE"]) for e in last] == [("good", "1")]


def test_events_on_the_console(told: MakeJob) -> None:
    one = told("--event-log-handler=console", "--quiet")
    run(one)
    lines = [json.loads(text) for text in one.agents[0].output().splitlines() if text.startswith("{")]
    states = [(e["source"], e["metadata"]["state"]) for e in lines]
    assert states == [("WORKER", "START"), ("WORKER", "SUCCEEDED"), ("AGENT", "SUCCEEDED")]


# --- what needs torch beside the agent -----------------------------------------------------------------------------

LOGS_SPECS = """
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs

class Mine(DefaultLogsSpecs):
    def reify(self, envs):
        to = super().reify(envs)
        if "FAIL" in envs[0]["TORCHELASTIC_RUN_ID"]:
            raise KeyError("no place")
        to.stdouts[0] = to.tee_stdouts[0] = f"{self.root_log_dir}/mine-{envs[0]['RANK']}.txt"
        envs[0]["FROM_LOGS_SPECS"] = "yes"
        return to
"""


@pytest.fixture
def logs_specs(tmp_path: Path) -> str:
    """A folder with an installed entry point ``mine``."""
    folder = tmp_path / "site"
    info = folder / "mine-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "mine.py").write_text(LOGS_SPECS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torchrun.logs_specs]\nmine = mine:Mine\n")
    return str(folder)


@pytest.mark.torch
def test_logs_specs_say_where_the_output_goes(told: MakeJob, logs_specs: str, tmp_path: Path) -> None:
    one = told("--logs-specs=mine", f"--log-dir={tmp_path}/logs", env={"PYTHONPATH": python_path(logs_specs)})
    (event,) = run(one)
    assert event["env"]["FROM_LOGS_SPECS"] == "yes"
    assert (tmp_path / "logs/mine-0.txt").read_text() == "out of 0: keep\nout of 0: drop\n"
    assert "[default0]:out of 0: keep\n" in one.agents[0].output()
    bad = told("--logs-specs=mine", "--rdzv-id=FAIL", env={"PYTHONPATH": python_path(logs_specs)})
    run(bad, code=71)
    assert "--logs-specs=mine: reify: KeyError: 'no place'" in bad.agents[0].output().splitlines()[-1]


@pytest.mark.torch
def test_numa_binding_without_a_gpu_is_refused_before_anything_runs(told: MakeJob) -> None:
    one = told("--numa-binding=node", "--quiet")
    assert run(one, code=2, CUDA_VISIBLE_DEVICES="") == []
    (line,) = one.agents[0].output().splitlines()
    assert line.startswith("elaunch: error: --numa-binding=node: binds each rank near its GPU, and ")


@pytest.mark.torch
def test_torch_chooses_for_each_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.numa import binding

    from elaunch.worker.numa import cpus

    mine = sorted(os.sched_getaffinity(0))
    monkeypatch.setattr(binding, "_get_gpu_count", lambda: 2)
    monkeypatch.setattr(binding, "_get_numa_node_index_for_gpu_index", lambda gpu_index: 0)
    monkeypatch.setattr(binding, "_get_allowed_logical_cpu_indices_for_numa_node", lambda numa_node_index: set(mine))
    assert cpus("node", 2) == [mine, mine]
    monkeypatch.setattr(binding, "_get_allowed_logical_cpu_indices_for_numa_node", lambda numa_node_index: set())
    with pytest.raises(RuntimeError, match="no CPU for local rank 0"):
        cpus("node", 1)
    with pytest.raises(RuntimeError, match="torch sees 2 for 3 ranks"):
        cpus("node", 3)


def python_path(folder: str) -> str:
    return f"{PROGRAMS.parents[1]}:{folder}"
