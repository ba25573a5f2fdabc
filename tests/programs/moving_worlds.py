"""A program for test_checkpoint_moves: one training that goes through worlds of other sizes and kinds, by Checkpointer.

Each world is made of new processes, restores what the one before has saved, and loses its own last step, as after a
kill. What it does is compared with one process that does all steps.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from elaunch.checkpoint import Checkpointer, ElasticSampler

BATCH = 12  # samples of all ranks together: divides by 1, 2, 3 and 4
LENGTH = 66  # samples of an epoch: five batches and a half
STEPS = 4  # of which the last is lost
ROUTES = {
    "shrinking and growing": ["fsdp4", "fsdp2", "fsdp3", "single1"],
    "tensor parallel": ["tp4", "fsdp3"],
    "replicated": ["ddp2", "fsdp2", "ddp2"],
}


class Net(nn.Module):
    """With rows that no number of ranks divides, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 10)
        self.norm = nn.LayerNorm(6)
        self.down = nn.Linear(10, 6)
        self.narrow = nn.Linear(6, 5)
        self.again = nn.Linear(6, 5, bias=False)
        self.again.weight = self.narrow.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        return self.narrow(x) + self.again(x.sin())


@dataclass
class Training:
    """One rank's. ``data_ranks`` share the global batch."""

    model: Any
    data_rank: int = 0
    data_ranks: int = 1

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.003, eps=1e-4, foreach=False)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 30)
        x = torch.randn(LENGTH, 6, generator=torch.Generator().manual_seed(5))
        data = TensorDataset(x, torch.arange(LENGTH))
        self.sampler = ElasticSampler(data, seed=3, rank=self.data_rank, world=self.data_ranks)
        self.loader = DataLoader(data, batch_size=BATCH // self.data_ranks, sampler=self.sampler)
        self.batches = self.forever()

    def forever(self) -> Iterator[Any]:
        while True:
            yield from self.sampler.track(self.loader)

    def state(self) -> dict[str, Any]:
        return {"model": self.model, "optim": self.optimizer, "lr": self.scheduler, "data": self.sampler}

    def step(self, step: int) -> dict[str, Any]:
        x, places = next(self.batches)
        left = LENGTH - (step - 1) % (-(-LENGTH // BATCH)) * BATCH
        # Ranks average their gradients: the loss of each is its part of the mean over the global batch.
        loss = self.model(x).square().mean(1).sum() * self.data_ranks / min(BATCH, left)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return {"step": step, "seen": places.tolist(), "loss": loss.item() / self.data_ranks, "rank": self.data_rank}

    def weights(self) -> dict[str, Any]:
        """Parameters and what the optimizer knows of them, whole."""
        named = {}
        for name, parameter in self.model.named_parameters():
            held = {"": parameter, **self.optimizer.state[parameter]}
            for key, value in held.items():
                value = value.full_tensor() if isinstance(value, DTensor) else value
                named[f"{name.removeprefix('module.')} {key}"] = value.detach().tolist()
        return named


def training(kind: str, size: int) -> Training:
    model: Any = Net()
    if kind == "single":
        return Training(model)
    if kind == "ddp":
        return Training(DistributedDataParallel(model), dist.get_rank(), size)
    if kind == "tp":
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        data = mesh["dp"]
    else:
        data = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    fully_shard(model.up, mesh=data)
    fully_shard(model, mesh=data)
    return Training(model, data.get_local_rank(), data.size())


def world(name: str, rank: int, number: int, path: Path) -> None:
    """One rank of one world: restore, train, save in the middle, and lose what came after."""
    kind, size = name[:-1], int(name[-1])
    try:
        torch.manual_seed(1 if number == 0 else 100 + rank)  # only the first one's parameters count
        if size > 1:
            store = f"file://{path}/store{number}"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
        run = training(kind, size)
        checkpointer = Checkpointer(path / "checkpoints", run.state(), timeout=60)
        first = checkpointer.restore()
        lines = [{"first": first}]
        for step in range(first + 1, first + STEPS + 1):
            lines.append(run.step(step))
            if step == first + STEPS - 1:
                checkpointer.save(step)
                weights = run.weights()
        if not checkpointer.wait().committed:
            raise RuntimeError(checkpointer.wait().error)
        result = {"lines": lines, "weights": weights}
        if size > 1:
            dist.barrier()
    except Exception:  # noqa: BLE001 - it is what the test prints
        result = {"error": traceback.format_exc()}
    (path / f"{number}-{rank}.json").write_text(json.dumps(result))
    os._exit(0)  # as a kill would: nothing is closed


def undisturbed(path: Path) -> None:
    torch.manual_seed(1)
    run = Training(Net())
    lines, weights = [], []
    for step in range(1, max(map(len, ROUTES.values())) * (STEPS - 1) + 2):
        lines.append(run.step(step))
        weights.append(run.weights())
    (path / "undisturbed.json").write_text(json.dumps({"lines": lines, "weights": weights}))


def main(path: Path) -> None:
    torch.set_num_threads(1)
    undisturbed(path)
    fork = multiprocessing.get_context("fork")
    for route, names in ROUTES.items():
        (path / route).mkdir()
        for number, name in enumerate(names):
            ranks = [fork.Process(target=world, args=(name, r, number, path / route)) for r in range(int(name[-1]))]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
