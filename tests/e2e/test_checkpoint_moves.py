"""A training that moves through worlds of other sizes and kinds goes on as one process would, by its checkpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import PROGRAMS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(300)]
PATIENCE = 280
RELATIVE, ABSOLUTE = 1e-4, 2e-5  # of float32 sums in another order, over twelve steps
LENGTH, KEPT = 66, 3  # samples of an epoch, steps of each world that are not lost
WORLDS = {
    "shrinking and growing": [4, 2, 3, 1],
    "tensor parallel": [4, 3],
    "replicated": [2, 2, 2],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all worlds have left."""
    path = tmp_path_factory.mktemp("moves")
    command = [sys.executable, str(PROGRAMS / "moving_worlds.py"), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return path


@pytest.mark.parametrize("route", WORLDS)
def test_a_training_goes_on_as_on_one_process(path: Path, route: str) -> None:
    wanted = json.loads((path / "undisturbed.json").read_text())
    order: list[int] = []
    for number, size in enumerate(WORLDS[route]):
        told = [json.loads((path / route / f"{number}-{rank}.json").read_text()) for rank in range(size)]
        errors = [one["error"] for one in told if "error" in one]
        assert not errors, errors[0]
        assert {one["lines"][0]["first"] for one in told} == {number * KEPT}
        for place in range(1, KEPT + 2):
            by_rank = {one["lines"][place]["rank"]: one["lines"][place] for one in told}
            step = number * KEPT + place
            alone = wanted["lines"][step - 1]
            seen = [by_rank[rank]["seen"] for rank in sorted(by_rank)]
            in_order = [row[i] for i in range(len(seen[0])) for row in seen if i < len(row)]
            assert in_order == alone["seen"], f"step {step}"
            assert sum(one["loss"] for one in by_rank.values()) == pytest.approx(alone["loss"], rel=1e-4), (
                f"step {step}"
            )
            order += in_order if place <= KEPT else []
        for one in told:
            assert_close(one["weights"], wanted["weights"][number * KEPT + KEPT - 1], f"world {number}")
    epochs = [order[i : i + LENGTH] for i in range(0, len(order), LENGTH)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch)
    assert sorted(epochs[0]) == list(range(LENGTH))


def assert_close(found: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert flat(found[name]) == pytest.approx(flat(values), rel=RELATIVE, abs=ABSOLUTE), f"{where}: {name}"


def flat(values: Any) -> list[float]:
    return [number for item in values for number in flat(item)] if isinstance(values, list) else [values]
