"""Mistakes in what a program gives a Checkpointer are said in one sentence, before anything could be lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.errors import CheckpointError, StateError


class Half:
    def state_dict(self) -> dict[str, int]:
        return {"a": 1}


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        (torch.nn.Linear(1, 1), TypeError, "the state is a dict of names and objects, .* this is a Linear"),
        ({1: {}}, TypeError, "the names in the state are strings, .* this is 1"),
        ({"": {}}, TypeError, "the names in the state are strings"),
        ({"step": 3}, StateError, "state 'step' is an int, .* hold it in a dict"),
        ({"step": PerRank(3)}, StateError, "state 'step' is an int"),
        ({"name": "x"}, StateError, "state 'name' is a str"),
        ({"n": None}, StateError, "state 'n' is None"),
        ({"n": (1, 2)}, StateError, "state 'n' is a tuple"),
        ({"n": numpy.float32(1)}, StateError, "state 'n' is a float32"),
        ({"half": Half()}, StateError, "state 'half' is a Half, which has state_dict and no load_state_dict"),
    ],
)
def test_a_state_that_a_restore_could_not_fill(tmp_path: Path, state: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Checkpointer(tmp_path, state)


@pytest.mark.parametrize("option", [{"keep_last": 0}, {"keep_every": -1}, {"verify": True}, {"on_busy": "drop"}])
def test_an_option_that_makes_no_sense_is_named_alone(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^\w+=\S+ must be") as caught:
        Checkpointer(tmp_path, {"a": {}}, **option)
    assert str(caught.value).startswith(next(iter(option)) + "=")


@pytest.mark.parametrize(("step", "error"), [(1.5, TypeError), ("3", TypeError), (None, TypeError), (-1, ValueError)])
def test_a_step_is_a_whole_number(tmp_path: Path, step: Any, error: type[Exception]) -> None:
    with Checkpointer(tmp_path, {"a": {}}) as checkpointer, pytest.raises(error, match="a step is"):
        checkpointer.save(step)


def test_a_step_may_be_a_tensor_or_a_number_of_numpy(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"a": {}}) as checkpointer:
        checkpointer.save(torch.tensor(3))  # type: ignore[arg-type]
        assert checkpointer.wait().name == "step-00000003"
        checkpointer.save(numpy.int64(4))  # type: ignore[arg-type]
        assert checkpointer.wait().name == "step-00000004"


def test_a_closed_one_says_so(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, {"a": {}})
    checkpointer.save(1)
    checkpointer.close()
    checkpointer.close()
    for call in (lambda: checkpointer.save(2), checkpointer.restore, lambda: checkpointer.load(tmp_path / "x")):
        with pytest.raises(CheckpointError, match="this Checkpointer is closed"):
            call()
    assert checkpointer.wait().committed


def test_an_array_is_filled_in_place(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"a": numpy.arange(3), "own": PerRank(numpy.arange(2))}) as checkpointer:
        checkpointer.save(1)
    a, own = numpy.zeros(3, dtype=numpy.int64), numpy.zeros(2, dtype=numpy.int64)
    with Checkpointer(tmp_path, {"a": a, "own": PerRank(own)}) as checkpointer:
        assert checkpointer.restore() == 1
    assert (a.tolist(), own.tolist()) == ([0, 1, 2], [0, 1])
    with (
        Checkpointer(tmp_path, {"a": numpy.zeros(4), "own": PerRank(own)}) as checkpointer,
        pytest.raises(StateError, match=r"state 'a' is an array of shape \(4,\)"),
    ):
        checkpointer.restore()


def test_a_directory_that_is_itself_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, {"a": {}}) as checkpointer:
        checkpointer.save(1)
    with pytest.raises(CheckpointError, match="step-00000001 is one checkpoint; give the directory above it"):
        Checkpointer(tmp_path / "step-00000001", {"a": {}})


def test_the_directory_of_a_run_is_not_what_load_takes(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "run", {"a": {}}) as checkpointer:
        checkpointer.save(1)
    with (
        Checkpointer(tmp_path / "other", {"a": {}}) as checkpointer,
        pytest.raises(CheckpointError, match="load one of those in it, as run/step-00000001"),
    ):
        checkpointer.load(tmp_path / "run")
