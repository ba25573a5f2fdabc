"""An operator at a running job: real agents, a real etcd, the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controller, Controllers
from tests.e2e.harness import PROGRAMS, Agent, Job, wait_until
from tests.e2e.operating import elaunch

pytestmark = pytest.mark.slow

PLAIN = [str(PROGRAMS / "signalled.py")]


def elastic(job: MakeJob, etcd: str, name: str, nodes: str = "1:3") -> Job:
    return job(
        f"--nnodes={nodes}", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", "--start=exec",
        "--rdzv-conf=last_call_timeout=0.3", program=PLAIN,
    )  # fmt: skip


def started(one: Job, generation: int, world: int) -> None:
    wait_until(
        f"{world} ranks of generation {generation}",
        lambda: len(one.events("ready", generation=generation)) == world,
    )


def two_agents(one: Job) -> tuple[Agent, Agent]:
    first = one.agent()
    wait_until("the first leads", lambda: "leading" in first.output())
    second = one.agent()
    wait_until("both run", lambda: {e["env"]["WORLD_SIZE"] for e in one.events("start")} >= {"2"})
    wait_until("all are ready", lambda: len(one.events("ready", generation=generation(one))) == 2)
    return first, second


def running(rows: list[Any]) -> list[Any]:
    """The jobs that run: of the ranks' start the leader hears a moment after them."""
    return [row for row in rows if row["phase"] == "running"]


def generation(one: Job) -> int:
    return max(e["generation"] for e in one.events("start"))


def test_a_job_on_this_host_is_seen_restarted_and_aborted(job: MakeJob, tmp_path: Path) -> None:
    """Without an option: the agent leaves word of where its etcd is."""
    runtime = {"ELAUNCH_RUNTIME_DIR": str(tmp_path / "run")}
    assert elaunch("ps", **runtime).out == "no jobs\n"
    one = job("--nproc-per-node=2", "--max-restarts=1", "--rdzv-id=here", "--start=exec", program=PLAIN, env=runtime)
    agent = one.agent()
    started(one, 1, 2)

    (row,) = wait_until("it runs", lambda: running(elaunch("ps", "--json", **runtime).document))
    assert (row["job"], row["phase"], row["generation"], row["nodes"], row["ranks"]) == ("here", "running", 1, 1, 2)
    assert elaunch("ps", **runtime).out.splitlines()[1].split()[:3] == ["here", "running", "1"]
    status = elaunch("status", "here", "--json", **runtime).document
    (node,) = status["nodes"]
    assert (node["phase"], node["ranks"], node["pid"]) == ("running", [0, 1], agent.pid)
    assert status["live"] is True
    assert status["budget_left"] == 1

    restarted = elaunch("restart", "here", "--reason=new data", "--from-step=40", **runtime)
    assert (restarted.code, restarted.out) == (0, "here: restart: generation 2 runs: 2 ranks on 1 node\n")
    started(one, 2, 2)
    env = one.events("start", generation=2, rank=0)[0]["env"]
    assert (env["TORCHELASTIC_RESTART_COUNT"], env["ELAUNCH_FROM_STEP"]) == ("0", "40")
    assert "ELAUNCH_FROM_STEP" not in one.events("start", generation=1, rank=0)[0]["env"]

    told = elaunch("signal", "here", "usr1", "--rank=1", "--json", **runtime).document
    assert (told["standing"], told["answer"]) == ("done", "SIGUSR1 was sent on 1 of 1 node")
    wait_until("rank 1 has it", lambda: one.events("signal", rank=1, generation=2, signal=signal.SIGUSR1))
    assert not one.events("signal", rank=0, signal=signal.SIGUSR1)
    missing = elaunch("signal", "here", "USR1", "--rank=7", **runtime)
    assert missing.code == 66
    assert missing.err == "elaunch: error: here: signal: no rank 7 in generation 2: it has 2\n"

    events = elaunch("events", "here", "--json", **runtime).out.splitlines()
    assert any('"command_accepted"' in line and '"why": "new data"' in line for line in events)

    aborted = elaunch("abort", "here", "--reason=enough", **runtime)
    assert aborted.code == 0, aborted.err
    assert aborted.out.startswith("here: abort: the job has ended: aborted by ")
    assert aborted.out.endswith(": enough\n")
    assert agent.wait() == 94, agent.output()
    assert agent.output().splitlines()[-1].startswith("elaunch: error: aborted by ")
    assert {e["signal"] for e in one.events("signal", generation=2)} == {signal.SIGUSR1, signal.SIGTERM}
    gone = elaunch("status", "here", **runtime)
    assert gone.code == 66
    assert "no agent of yours runs job 'here' on this host: it is over, or runs elsewhere" in gone.err
    assert not list((tmp_path / "run" / "jobs").iterdir())


@pytest.mark.torch
def test_the_stacks_of_a_rank_and_an_abort_that_keeps_them(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    one = job(
        "--nproc-per-node=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=stacks",
        f"--log-dir={tmp_path / 'logs'}",
    )  # fmt: skip
    agent = one.agent()
    one.steps_in(1, 2)
    at = f"--rdzv-endpoint={etcd}"
    shown = elaunch("stacks", "stacks", "--rank=1", at)
    assert shown.code == 0, shown.err
    assert "rank 1 (local rank 1, pid " in shown.out
    assert "rank 0 (" not in shown.out
    assert 'steps.py", line ' in shown.out
    progress = elaunch("status", "stacks", at, "--json").document["rank_progress"]
    assert [(rank["rank"], rank["state"] in "RSD") for rank in progress] == [(0, True), (1, True)]
    assert elaunch("abort", "stacks", at, "--evidence").code == 0
    assert agent.wait() == 94
    (stacks,) = (tmp_path / "logs").rglob("rank1.stacks.txt")
    (line,) = [line for line in elaunch("events", "stacks", at).out.splitlines() if "evidence_saved" in line]
    assert f": {stacks.parent}: rank" in line


def test_the_leading_node_is_drained_kept_out_and_taken_back(job: MakeJob, etcd: str) -> None:
    two = elastic(job, etcd, "drain")
    first, second = two_agents(two)
    at = f"--rdzv-endpoint={etcd}"
    status = elaunch("status", "drain", at, "--json").document
    node = next(n["node_id"] for n in status["nodes"] if n["pid"] == first.pid)
    assert status["leader"]["node_id"] == node
    drained = generation(two)
    done = elaunch("drain", node, at, "--reason=new disk")
    assert done.code == 0, done.err
    assert "has left the job" in done.out
    assert first.wait() == 143, first.output()
    before = drained + 1
    wait_until("the other goes on", lambda: two.events("ready", generation=before, rank=0))
    assert two.events("start", generation=before, rank=0)[0]["env"]["WORLD_SIZE"] == "1"
    late = two.agent()
    wait_until("it is told why it waits", lambda: "elaunch undrain" in late.output())
    assert "is out: drained by " in elaunch("status", "drain", at).out
    host = elaunch("status", "drain", at, "--json").document["drained"][0]["host"]
    assert elaunch("drain", node, at).code == 68
    assert elaunch("drain", "no-such-host", at).code == 66
    back = elaunch("undrain", host, at)
    assert (back.code, back.out) == (0, f"drain: undrain: {host} may take part again\n")
    started(two, before + 1, 2)
    assert elaunch("abort", "drain", at).code == 0
    assert [second.wait(), late.wait()] == [94, 94]


def test_a_job_is_scaled_down_and_up(job: MakeJob, etcd: str) -> None:
    two = elastic(job, etcd, "scale")
    first, second = two_agents(two)
    at = f"--rdzv-endpoint={etcd}"
    before = generation(two)
    down = elaunch("scale", "scale", "1:1", at)
    assert (down.code, down.out) == (0, f"scale: scale: generation {before + 1} runs: 1 rank on 1 node\n")
    wait_until("the other is a spare", lambda: "this one is a spare" in first.output() + second.output())
    up = elaunch("scale", "scale", "1:2", at)
    assert up.out == "scale: scale: 1:2 nodes instead of 1:1; now 1 node, 1 more waiting\n"
    started(two, before + 2, 2)
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in two.events("start")} == {"0"}
    two.finish()
    assert [first.wait(), second.wait()] == [0, 0]


def test_a_finished_job_and_one_that_never_was(job: MakeJob, etcd: str) -> None:
    one = elastic(job, etcd, "done", "1")
    agent = one.agent()
    at = f"--rdzv-endpoint={etcd}"
    wait_until("it runs", lambda: "job_running" in elaunch("events", "done", at).out)
    following = subprocess.Popen(
        [sys.executable, "-m", "elaunch", "events", "done", "-f", f"--etcd={etcd}"], stdout=subprocess.PIPE, text=True
    )
    one.finish()
    assert agent.wait() == 0
    out, _ = following.communicate(timeout=90)
    assert following.returncode == 0
    assert [line.split()[2] for line in out.splitlines()] == [
        "leading:",
        "job_starting:",
        "job_running:",
        "job_succeeded:",
    ]
    for command in (["abort"], ["restart"], ["scale", "1:2"], ["stacks"], ["signal", "TERM"]):
        kind, *more = command
        late = elaunch(kind, "done", *more, at)
        assert late.code == 67, late.err
        assert late.err == "elaunch: error: job 'done' has ended (succeeded): every rank ended with 0\n"
        never = elaunch(kind, "never", *more, at, "--json")
        assert (never.code, never.document["error"]) == (66, "not_found")
    assert "done: succeeded" in elaunch("status", "done", at).out
    assert elaunch("status", "never", at).code == 66
    assert elaunch("events", "never", at).code == 66


def test_a_second_abort_is_refused_while_the_first_goes_on(job: MakeJob, etcd: str) -> None:
    one = elastic(job, etcd, "twice", "1")
    agent = one.agent("--grace-period=100", MODE="deaf")
    started(one, 1, 1)
    at = f"--rdzv-endpoint={etcd}"
    first = elaunch("abort", "twice", at, "--timeout=0.1")
    assert first.code == 74
    assert "it stands, and will be carried out" in first.err
    second = elaunch("abort", "twice", at)
    assert second.code == 68
    assert "the job is being aborted already: aborted by " in second.err
    os.kill(one.events("start")[0]["pid"], signal.SIGKILL)  # its patience need not be waited for
    assert agent.wait() == 94
    assert elaunch("abort", "twice", at).code == 67


def test_the_leader_is_killed_and_another_carries_out_what_was_asked(job: MakeJob, etcd: str) -> None:
    two = elastic(job, etcd, "scaled-twice")
    first, second = two_agents(two)
    at = f"--rdzv-endpoint={etcd}"
    first.kill(signal.SIGSTOP)  # leads, and hears of nothing
    asked = elaunch("scale", "scaled-twice", "1:5", at, "--timeout=0.2")
    assert asked.code == 74
    first.kill()
    first.wait()
    wait_until("the other leads", lambda: "leading" in second.output())

    def scaled() -> bool:
        document = elaunch("status", "scaled-twice", at, "--json").document
        commands = [(c["kind"], c["standing"]) for c in document["commands"]]
        return document["max_nodes"] == 5 and commands == [("scale", "done")]

    wait_until("it is carried out", scaled)
    assert elaunch("abort", "scaled-twice", at).code == 0
    assert second.wait() == 94


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["abort"], "the following arguments are required: JOB"),
        (["scale", "j", "3:1"], "'3:1': expected 0 < MIN <= MAX"),
        (["signal", "j", "NOPE"], "'NOPE' is no signal here"),
        (["stacks", "j", "--rank=x"], "'x': expected a number from 0"),
        (["status", "j", "--rdzv-endpoint=:1"], "--rdzv-endpoint=:1: "),
        (["ps", "--rdzv-conf=bad"], "--rdzv-conf=bad: expected KEY=VALUE"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], text: str) -> None:
    answer = elaunch(*arguments)
    assert answer.code == 2
    assert text in answer.err
    assert answer.err.count("\n") == 1


def test_no_etcd_there() -> None:
    answer = elaunch("ps", "--etcd=127.0.0.1:1")
    assert answer.code == 2
    assert "127.0.0.1:1" in answer.err


def test_a_script_of_a_commands_name_is_run_by_its_path(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "status").write_text("print('my own script')\n")
    monkeypatch.chdir(tmp_path)
    one = job("--start=exec", program=["./status"])
    agent = one.agent()
    assert agent.wait() == 0
    assert "my own script" in agent.output()


def test_a_job_that_a_controller_leads(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    """One controller is killed with a command on its way: the other carries it out."""
    controllers = Controllers(tmp_path, etcd)
    try:
        for _ in range(2):
            controllers.start()
        one = elastic(job, etcd, "controlled", "1")
        agent = one.agent()
        started(one, 1, 1)
        at = f"--rdzv-endpoint={etcd}"

        def named() -> Controller | None:
            _, leads = controllers.leading("controlled")
            return leads if f"led by {leads.controller_id} at " in elaunch("status", "controlled", at).out else None

        leader: Controller = wait_until("the status names the leader", named)
        leader.kill(signal.SIGSTOP)
        assert elaunch("restart", "controlled", at, "--timeout=0.1").code in (74, 0), "0 where the other leads already"
        leader.kill()
        leader.wait()
        started(one, 2, 1)
        wait_until("it is through", lambda: "done: generation 2 runs" in elaunch("events", "controlled", at).out)
        commands = elaunch("status", "controlled", at, "--json").document["commands"]
        assert [(c["kind"], c["standing"], c["answer"]) for c in commands] == [
            ("restart", "done", "generation 2 runs: 1 rank on 1 node")
        ]
        assert elaunch("abort", "controlled", at).code == 0
        assert agent.wait() == 94
        assert {e["generation"] for e in one.events("start")} == {1, 2}, "restarted once"
    finally:
        left = controllers.close()
    assert not left
