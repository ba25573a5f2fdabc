"""examples/train_ddp.py: losing a rank changes no loss by a bit, and torchrun runs it as well."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from elaunch.checkpoint.storages import layout

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
ELAUNCH = [sys.executable, "-m", "elaunch"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SECONDS = 120.0
STEPS = 60


class Run:
    """The example under a launcher, with two ranks."""

    def __init__(self, launcher: list[str], folder: Path, *options: str) -> None:
        folder.mkdir()
        self.losses, self.output = folder / "losses.jsonl", folder / "output"
        self.checkpoints = folder / "checkpoints"
        program = [str(ROOT / "examples/train_ddp.py"), "--checkpoint-dir", str(self.checkpoints)]
        limits = ["--steps", str(STEPS), "--checkpoint-every", "10", "--loss-log", str(self.losses), *options]
        launch = [*launcher, "--standalone", "--nproc-per-node=2", "--max-restarts=3"]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*launch, *program, *limits],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def lines(self) -> list[dict[str, float]]:
        """What rank 0 has logged so far; a line that is being written does not count yet."""
        text = self.losses.read_text() if self.losses.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def saved(self) -> int:
        """The newest step of which there is a checkpoint, 0 for none."""
        return max((layout.step_of(path.name) or 0 for path in self.checkpoints.glob("step-*")), default=0)

    def pid(self, rank: int, generation: int) -> int:
        said = re.search(rf"rank {rank} of \d+  pid (\d+) .* generation {generation} ", self.output.read_text())
        assert said, self.output.read_text()
        return int(said[1])

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.01)

    def finish(self) -> dict[int, set[float]]:
        """The losses seen for each step: one each, unless a step that was done twice gave two."""
        assert self.process.wait(SECONDS) == 0, self.output.read_text()
        seen: dict[int, set[float]] = {}
        for line in self.lines():
            seen.setdefault(int(line["step"]), set()).add(line["loss"])
        return seen

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(40)
            self.process.kill()
            self.process.wait(5)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, set[float]]:
    run = Run(ELAUNCH, tmp_path_factory.mktemp("undisturbed") / "run")
    try:
        return run.finish()
    finally:
        run.end()


def test_loss_goes_down_one_value_per_step(undisturbed: dict[int, set[float]]) -> None:
    losses = [loss for step in sorted(undisturbed) for loss in undisturbed[step]]
    assert len(losses) == STEPS
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("rank", [0, 1])
def test_losses_after_a_killed_rank_are_those_of_an_undisturbed_run(
    tmp_path: Path, undisturbed: dict[int, set[float]], rank: int
) -> None:
    run = Run(ELAUNCH, tmp_path / "run", "--step-delay", "0.05")
    try:
        run.until(lambda: len(run.lines()) >= 25 and run.saved() >= 20)  # a save goes on beside the steps
        os.kill(run.pid(rank, generation=1), signal.SIGKILL)
        losses = run.finish()
    finally:
        run.end()
    assert losses == undisturbed
    second = [line["step"] for line in run.lines() if line["generation"] == 2]
    assert second[0] > 20, "the second generation goes on from a checkpoint"
    assert {line["generation"] for line in run.lines()} == {1, 2}


def test_torchrun_gives_the_same_losses(tmp_path: Path, undisturbed: dict[int, set[float]]) -> None:
    run = Run(TORCHRUN, tmp_path / "run")
    try:
        assert run.finish() == undisturbed
    finally:
        run.end()
