"""Jobs that a program launches itself: results, failures, restarts, and that nothing is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elaunch
from elaunch.api.failures import JobEndedError
from elaunch.errors import UsageError
from tests.e2e.harness import MARK, PROGRAMS, marked, wait_until
from tests.e2e.spawning import environment

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every process of a test carries it; when the test is over none may be left but this one."""
    mine = uuid.uuid4().hex
    for name, value in {**environment(), MARK: mine, "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield mine
    left = wait_until("all processes to be gone", lambda: not marked(mine) or None, 60)
    assert left


def config(**more: Any) -> elaunch.LaunchConfig:
    return elaunch.LaunchConfig(**{"nproc_per_node": 2, "start": "exec", "quiet": True, **more})


def place(offset: int) -> tuple[int, int, str]:
    here = elaunch.context()
    return here.rank + offset, here.world_size, here.job


def test_what_a_function_returns_comes_back_by_rank(tmp_path: Path) -> None:
    done = elaunch.launch(config(run_id="a-job"), place, 10)
    assert done == {0: (10, 2, "a-job"), 1: (11, 2, "a-job")}
    assert not list(tmp_path.glob("elaunch-call-*"))


def test_much_comes_back_and_goes_there() -> None:
    data = os.urandom(3 << 20)
    assert elaunch.launch(config(), lambda given: given[::-1], data) == {0: data[::-1], 1: data[::-1]}


def forks() -> str:
    gone, end = os.pipe()
    if os.fork() == 0:
        os.close(end)
        os.read(gone, 1)  # until its parent has ended
        return "child"
    return "parent"


def test_what_a_fork_of_a_rank_returns_is_not_the_ranks_result() -> None:
    assert elaunch.launch(config(nproc_per_node=1), forks) == {0: "parent"}


def test_after_a_restart_the_last_generation_counts() -> None:
    def second_time_right() -> tuple[int, str]:
        now = elaunch.context()
        if now.restart_count == 0 and now.rank == 1:
            raise ValueError("not yet")
        return now.generation, now.reason

    done = elaunch.launch(config(max_restarts=1), second_time_right)
    assert [generation for generation, _ in done.values()] == [2, 2]
    assert "rank 1" in done[0][1]


def test_a_failure_is_told_with_its_root_cause() -> None:
    def fails() -> None:
        if elaunch.context().rank == 1:
            raise ValueError("the disk is\nfull")
        signal.pause()

    with pytest.raises(elaunch.ChildFailedError, match=r"fails failed on rank 1 \(.*ValueError: the disk is") as caught:
        elaunch.launch(config(grace_period=1), fails)
    rank, first = caught.value.get_first_failure()
    assert (rank, first.rank, first.local_rank, first.exitcode) == (1, 1, 1, 1)
    assert first.message == "ValueError: the disk is\nfull"
    assert 'raise ValueError("the disk is\\nfull")' in first.traceback
    assert "called.py" not in first.traceback
    assert (caught.value.exit_code, caught.value.name.rpartition(".")[2]) == (1, "fails")
    assert "Root Cause" in caught.value.format_msg()
    assert first.signal_name() == "<N/A>"
    assert first.error_file_data["message"]["errorCode"] == 1


def test_commands_run_as_they_are_and_python_files_as_programs(tmp_path: Path) -> None:
    assert elaunch.launch(config(), ["sh", "-c"], 'echo "$RANK" > "$0/$RANK"', tmp_path) == {}
    assert sorted(path.read_text() for path in tmp_path.glob("[01]")) == ["0\n", "1\n"]
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(int(sys.argv[1]))")
    with pytest.raises(elaunch.ChildFailedError) as caught:
        elaunch.launch(config(), str(script), 7)
    assert caught.value.get_first_failure()[1].exitcode == caught.value.exit_code == 7
    with pytest.raises(elaunch.ChildFailedError) as caught:
        elaunch.launch(config(), ["sh", "-c", "kill -KILL $$$$"])
    assert caught.value.get_first_failure()[1].signal_name() == "SIGKILL"


def test_bad_input_is_refused_with_the_words_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="--max-restarts=-1"):
        elaunch.launch(config(max_restarts=-1), place, 0)
    with pytest.raises(UsageError, match="not found on PATH"):
        elaunch.launch(config(), "no-such-command")
    with pytest.raises(UsageError, match="expected a function"):
        elaunch.launch(config(), [])


def test_what_cannot_be_handed_back_fails_the_rank() -> None:
    with pytest.raises(elaunch.ChildFailedError, match=r"what the function returned .* cannot be handed back"):
        elaunch.launch(config(nproc_per_node=1), lambda: lambda: 1)


def test_a_stop_that_no_rank_is_to_blame_for() -> None:
    def stops_the_agent() -> None:
        lines = Path(f"/proc/{os.getppid()}/status").read_text().splitlines()  # of the spawner process
        os.kill(next(int(line.split()[1]) for line in lines if line.startswith("PPid")), signal.SIGTERM)
        signal.pause()

    with pytest.raises(JobEndedError, match="SIGTERM") as caught:
        elaunch.launch(config(nproc_per_node=1, grace_period=1), stops_the_agent)
    assert (caught.value.code, caught.value.exit_code) == ("stopped", 143)


def program(mode: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(PROGRAMS / "launching.py"), mode]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def first_rank(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().endswith("is there\n")


def test_an_interrupt_ends_the_job_first(mark: str) -> None:
    process = program("interrupted")
    first_rank(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert out.splitlines()[-1] == '"interrupted"', err
    assert not marked(mark)[1:]


def test_a_killed_program_takes_its_job_along(mark: str) -> None:
    process = program("killed")
    first_rank(process)
    process.kill()
    process.communicate(timeout=120)  # its ranks hold the pipes until they are gone


def test_a_thread_may_launch_and_no_signal_handler_is_changed() -> None:
    out, err = program("thread").communicate(timeout=200)
    assert json.loads(out) == [1, True, False], err


def test_the_main_file_may_not_launch_while_ranks_import_it() -> None:
    _, err = program("unguarded").communicate(timeout=200)
    assert "put what launches under if __name__ == '__main__':" in err


@pytest.mark.torch
def test_ranks_train_together_though_the_caller_has_torch_and_its_threads() -> None:
    out, err = program("torch").communicate(timeout=200)
    assert json.loads(out) == {"0": 3.0, "1": 3.0}, err
