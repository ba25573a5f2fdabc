"""A small training whose checkpoints are on an object store, in this process or in one of its own."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.collective.launcher import NoLauncher
from elaunch.checkpoint.records.claims import Owner
from elaunch.checkpoint.storages import beats


class Told(NoLauncher):
    """A launcher that keeps what it is told; of a generation of a job if given."""

    def __init__(self, generation: int = 0, job: str = "job") -> None:
        self.generation = generation
        self.job = job
        self.events: list[tuple[str, str]] = []
        self.steps: list[int] = []

    def owner(self) -> Owner:
        return Owner(self.job if self.generation else "", "i", self.generation, "host", os.getpid(), 0.0)

    def committed(self, outcome: Outcome, path: str) -> None:
        self.steps.append(outcome.step)

    def tell(self, kind: str, sentence: str) -> None:
        self.events.append((kind, sentence))


class Training:
    """A model whose values are a function of the step."""

    def __init__(self, where: str, told: Told | None = None, **options: Any) -> None:
        self.told = told or Told()
        self.model = torch.nn.Linear(64, 33)
        self.ckpt = Checkpointer(where, {"model": self.model}, launcher=self.told, **options)

    def save(self, step: int) -> Outcome:
        self._put(step)
        self.ckpt.save(step)
        return self.ckpt.wait()

    def restore(self) -> int:
        """The step whose values were found."""
        self._put(-1)
        step = self.ckpt.restore()
        assert step == 0 or self._is(step), f"not the values of step {step}"
        return step

    def _put(self, step: int) -> None:
        with torch.no_grad():
            self.model.weight.copy_(self._values(step))

    def _is(self, step: int) -> bool:
        return torch.equal(self.model.weight, self._values(step))

    def _values(self, step: int) -> torch.Tensor:
        return torch.arange(64 * 33, dtype=torch.float32).view(33, 64) * 0.5 + step


def of_two_ranks(where: str, rank: int, meeting: str) -> None:
    """Save and restore as one of two ranks that each have a part of the state."""
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    mine = {"rows": torch.full((3000, 512), float(rank + 1)), "at": rank}
    with Checkpointer(where, {"mine": PerRank(mine), "all": {"x": torch.arange(9)}}) as ckpt:
        ckpt.save(10)
        assert ckpt.wait().committed, ckpt.wait()
        mine["rows"] = torch.zeros(3000, 512)
        mine["at"] = -1
        assert ckpt.restore() == 10
        assert mine["at"] == rank
        assert bool((mine["rows"] == rank + 1).all())
    dist.destroy_process_group()


if __name__ == "__main__" and len(sys.argv) == 4:
    of_two_ranks(sys.argv[1], int(sys.argv[2]), sys.argv[3])
elif __name__ == "__main__":
    beats.INTERVAL = float(sys.argv[2])
    training = Training(sys.argv[1], Told(1, "first"))
    assert training.save(10).committed
    print("saved", flush=True)
    sys.stdin.read()
