"""Starts that go wrong: found, each named with its ranks and phase, in time. And what starts leave behind: nothing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from elaunch.errors import StartCheckError
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.watching import installed

pytestmark = pytest.mark.slow

HOST = socket.gethostname()
REFUSED = StartCheckError.exit_code


def ends(tmp_path: Path, how: str, *options: str, ranks: int = 2, **env: str) -> tuple[int, str, dict[int, str]]:
    """The exit code of a job that starts so, what elaunch said, and what each rank saw."""
    job = Job(
        tmp_path / how,
        ["--standalone", f"--nproc-per-node={ranks}", "--max-restarts=3", "--grace-period=2", *options],
        (str(PROGRAMS / "starting.py"),),
        {"HOW": how, **env},
    )
    agent = job.agent()
    try:
        code = agent.wait()
    finally:
        assert job.close() == []
    saw = {n: (job.out / f"{n}.txt").read_text() for n in range(ranks) if (job.out / f"{n}.txt").exists()}
    return code, agent.output(), saw


def reason(output: str) -> str:
    """Of the job's end."""
    (line,) = [line for line in output.splitlines() if "job_failed" in line]
    return line


def test_a_rank_that_sleeps_before_it_meets_the_others_is_named(tmp_path: Path) -> None:
    code, output, _ = ends(tmp_path, "sleep", "--hang-timeout=2", "--max-restarts=0")
    assert code == 92
    assert "code=start_timeout" in reason(output)
    assert f"rank 1 ({HOST}) has not entered init_process_group, which 1 other waits in" in reason(output)
    assert "phase importing (has not come to init_process_group): rank 1; phase store_exchange" in reason(output)


def test_another_world_size_is_refused_before_torch_waits_for_it(tmp_path: Path) -> None:
    """Exec starts: the hooks come with ``import torch`` there."""
    path = installed(tmp_path / "installed")["PYTHONPATH"]
    code, output, saw = ends(tmp_path, "world", "--start=exec", ranks=3, PYTHONPATH=path)
    assert code == REFUSED
    text = f"rank 1 ({HOST}) asked for a world of 4 ranks, ranks 0, 2 ({HOST}) asked for a world of 3 ranks"
    assert text in reason(output)
    assert "restart" not in output.replace("restart_count=0", "")
    assert saw == {}  # nobody came out of init_process_group


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("rank", f"ranks 0, 1 ({HOST}) both ask to be rank 0 of 2, and nobody is rank 1"),
        (
            "mesh",
            "the ranks make different meshes under one call: rank 0 makes a cpu mesh of (2, 1) named ('dp', 'tp'), "
            "rank 1 makes a cpu mesh of (1, 2) named ('dp', 'tp')",
        ),
    ],
)
def test_every_rank_raises_what_keeps_them_apart(tmp_path: Path, how: str, text: str) -> None:
    code, output, saw = ends(tmp_path, how)
    assert code == REFUSED
    assert f"code=start_check exit_code={REFUSED} reason={text}" in reason(output)
    # A rank that is slow to raise is stopped before.
    assert set(saw.values()) == {f"StartCheckError: {text}\n"}
    assert "generation=2" not in output


@pytest.mark.skipif(os.geteuid() != 0, reason="a rank needs root to cut itself off")
def test_a_rank_that_nobody_can_connect_to_is_named(tmp_path: Path) -> None:
    """Gloo tries for 10 s or so."""
    code, output, saw = ends(tmp_path, "unreachable", "--max-restarts=0", TIMEOUT="5")
    if "unprivileged" in saw.get(1, ""):
        pytest.skip("this root may not make a network namespace")
    assert code == 1
    assert "in phase transport of its start (connects to its peers)" in reason(output)
    assert "rank 1 cannot be reached at " in reason(output) or "rank 0 cannot be reached at " in reason(output)


def test_fifty_times_leave_nothing_behind(tmp_path: Path) -> None:
    """Each time with a subgroup and a mesh; one rank makes a world of its own in between."""
    options = ["--standalone", "--nproc-per-node=2"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "again.py"),), {"MIXED": "1"})
    agent = job.agent()
    try:
        assert agent.wait(250) == 0, agent.output()
    finally:
        assert job.close() == []
    for rank in (0, 1):
        found = json.loads((job.out / f"{rank}.json").read_text())
        assert found["after"]["threads"] <= found["before"]["threads"], found
        assert found["after"]["files"] <= found["before"]["files"] + 1, found
        assert len(found["keys"]) <= 2 * 2, "each rank's last, and the one before where that was not yet through"


def test_worlds_that_programs_make_on_purpose_are_let_be(tmp_path: Path) -> None:
    options = ["--standalone", "--nproc-per-node=4"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "worlds.py"),))
    agent = job.agent()
    try:
        assert agent.wait(180) == 0, agent.output()
    finally:
        assert job.close() == []
    assert len(list(job.out.glob("*.done"))) == 4


def test_without_the_check_torch_is_left_alone(tmp_path: Path) -> None:
    code, output, saw = ends(tmp_path, "rank", "--no-start-check", "--hang-timeout=3", "--max-restarts=0", TIMEOUT="5")
    assert code not in (0, REFUSED)
    assert "StartCheckError" not in output
    assert all("StartCheckError" not in text for text in saw.values())


@pytest.mark.parametrize("how", ["pending", "early"])
def test_a_rank_that_leaves_too_early_is_named(tmp_path: Path, how: str) -> None:
    options = ["--standalone", "--nproc-per-node=2", "--log-level=debug"]
    job = Job(tmp_path / "out", options, (str(PROGRAMS / "leaving.py"),), {"HOW": how})
    agent = job.agent()
    try:
        assert agent.wait() != 0
    finally:
        assert job.close() == []
    left = f"rank_left_early: rank 1 has destroyed its process groups before rank 0 ({HOST}) failed"
    wait_until("what was told of it", lambda: left in agent.output(), 1)
    pending = (
        f"shutdown_pending: rank 1 ({HOST}): destroys its process groups with all_reduce float32[3] of group 1/half"
    )
    assert (pending in agent.output()) == (how == "pending"), agent.output()
