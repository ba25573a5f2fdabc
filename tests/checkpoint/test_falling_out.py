"""A rank that falls out of the rounds of a checkpointer, wherever that is: the others hear of it, and do not wait."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.torch]
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "programs" / "falling_out.py"
WORLD = 3
AT_ONCE = 30.0  # seconds: half of what a round waits for a rank that does not come
ALIKE = {
    "a_state_that_cannot_be_had": "committed",
    "what_is_said_of_it": "StateError: state 'sick' cannot be saved: KeyError: 'gone'",
    "a_copy_that_fails": "rank 1: its state could not be copied: TypeError: no such cast",
    "a_plan_that_fails": "CheckpointError: rank 1: its state cannot be planned (AttributeError: no plan)",
    "a_state_that_is_refused_at_once": (
        "StateError: the name 'elaunch.mine' is taken by elaunch itself; use another one"
    ),
    "a_planner_that_takes_items_out_of_what_it_is_given": "committed 1",
    "a_checkpoint_that_goes_while_it_is_chosen": "1",
    "a_plan_that_leaves_something_out": "does not hold together (the part of 'w' at (0,) is in no file)",
}

Told = list[dict[str, tuple[float, str]]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("falling")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = []
    try:
        for rank in range(WORLD):
            command = [
                sys.executable,
                str(PROGRAM),
                str(folder / "store"),
                str(rank),
                str(WORLD),
                str(folder / "saves"),
            ]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ))
        return [json.loads(process.communicate(timeout=240)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("scene", ALIKE)
def test_what_one_rank_cannot_do_all_hear(told: Told, scene: str) -> None:
    assert [rank[scene][1] for rank in told] == [ALIKE[scene]] * WORLD


@pytest.mark.parametrize("scene", ["an_interrupt_in_a_state", "an_interrupted_restore"])
def test_who_is_interrupted_is_not_waited_for(told: Told, scene: str) -> None:
    assert told[1][scene][1].startswith("KeyboardInterrupt")
    for rank in (0, 2):
        assert told[rank][scene][1].startswith(f"CheckpointError: rank {rank}: another rank did not answer")


def test_a_save_that_one_rank_falls_out_of_is_lost_and_the_next_is_not(told: Told) -> None:
    said = [rank["a_thread_that_fails"][1] for rank in told]
    assert said[1] == "KeyError: 'nobody foresaw'; then committed; then committed"
    for rank in (0, 2):
        assert said[rank].startswith(f"rank {rank}: another rank did not answer")
        assert said[rank].endswith("; then committed; then committed")


def test_ranks_that_make_different_things_of_a_save_save_the_step_again(told: Told) -> None:
    said = [rank["a_thread_that_fails_on_rank_0"][1] for rank in told]
    assert said[0] == "KeyError: 'nobody foresaw'; then committed"
    assert all(one.endswith("; then committed") for one in said)


def test_nothing_is_saved_by_what_is_closed(told: Told) -> None:
    for rank in told:
        assert re.fullmatch("CheckpointError: .*: this Checkpointer is closed; .*", rank["closed"][1])


def test_a_host_that_sees_another_directory_is_named_as_the_cause(told: Told) -> None:
    for rank in told:
        said = rank["a_host_that_sees_another_directory"][1]
        assert re.fullmatch("CheckpointError: .*/there/step-00000001/.*; all hosts must see .*/(here|there)", said)


def test_nobody_waits(told: Told) -> None:
    late = {scene: seconds for rank in told for scene, (seconds, _) in rank.items() if seconds > AT_ONCE}
    assert not late
