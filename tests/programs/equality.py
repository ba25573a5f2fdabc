"""A program for test_checkpoint_equality: trains three models twice, first undisturbed, then with checkpoints.

Each rank writes down each step: the bits of the losses and the samples seen, and at the end the digests of all that it
holds. The second training is killed from outside, $KILLS times, and does not end before; the first is only made by
generation 1.
"""

import hashlib
import itertools
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import elaunch
from elaunch.checkpoint import RNG, Checkpointer, ElasticSampler

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])
STEPS = int(os.environ["STEPS"])
KILLS = int(os.environ["KILLS"])
EVERY = 3


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "t": time.monotonic(), "pid": os.getpid(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


class Samples(Dataset[Any]):
    def __init__(self, length: int) -> None:
        self.x = torch.randn(length, 8, generator=torch.Generator().manual_seed(length))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.x[place], place


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 13), nn.BatchNorm1d(13), nn.ReLU(), nn.Dropout(0.3), nn.Linear(13, 3))


@dataclass
class Variant:
    """One model in training."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: Any
    sampler: ElasticSampler
    loader: DataLoader[Any]
    dtype: torch.dtype | None = None
    scaler: Any = None
    epochs: bool = False  # numbered by the program

    def state(self) -> dict[str, Any]:
        parts = {"model": self.model, "optim": self.optimizer, "lr": self.scheduler, "data": self.sampler}
        return parts | ({"scaler": self.scaler} if self.scaler else {})

    def batches(self) -> Iterator[Any]:
        for epoch in itertools.count(self.sampler.epoch):
            if self.epochs:
                self.sampler.set_epoch(epoch)
            yield from self.sampler.track(self.loader)

    def learn(self, x: torch.Tensor) -> float:
        with torch.autocast("cpu", self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            loss = self.model(x).float().square().mean()
        if self.scaler:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss.item()


def loading(length: int, tail: Any, workers: int) -> tuple[ElasticSampler, DataLoader[Any]]:
    data = Samples(length)
    sampler = ElasticSampler(data, seed=length, tail=tail)
    return sampler, DataLoader(data, batch_size=6, sampler=sampler, num_workers=workers)


def variants() -> dict[str, Variant]:
    random.seed(7)  # else of each fork it is another, until a checkpoint has been restored; numpy's is so as well
    numpy.random.seed(7)
    torch.manual_seed(7)
    one: Any = DistributedDataParallel(network())
    sgd: Any = torch.optim.SGD(one.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    made = {"sgd": Variant(one, sgd, torch.optim.lr_scheduler.StepLR(sgd, 5), *loading(90, "exact", 0))}
    two: Any = DistributedDataParallel(network())
    adam: Any = torch.optim.AdamW(two.parameters(), lr=0.01)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 40)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17, growth_interval=4)
    made["fp16"] = Variant(two, adam, cosine, *loading(83, "drop", 2), torch.float16, scaler)
    three: Any = network()
    fully_shard(three[4])
    fully_shard(three)
    sharded: Any = torch.optim.AdamW(three.parameters(), lr=0.01, amsgrad=True)
    line = torch.optim.lr_scheduler.LinearLR(sharded, 0.1, total_iters=20)
    made["bf16"] = Variant(three, sharded, line, *loading(71, "pad", 0), torch.bfloat16, epochs=True)
    torch.manual_seed(100 + RANK)
    return made


def digests(held: Any, path: str = "") -> dict[str, str]:
    """The sums of the bits of all tensors, and all other values as they are."""
    if isinstance(held, DTensor):
        held = held.to_local()
    if isinstance(held, torch.Tensor):
        bits = held.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {path: f"{held.dtype} {tuple(held.shape)} {hashlib.sha256(bits).hexdigest()}"}
    if isinstance(held, dict | list | tuple):
        items = held.items() if isinstance(held, dict) else enumerate(held)
        return {key: value for name, item in items for key, value in digests(item, f"{path}.{name}").items()}
    return {path: held.hex() if isinstance(held, float) else repr(held)}


def train(which: str, made: dict[str, Variant], first: int, checkpointer: Checkpointer | None) -> None:
    batches = {name: one.batches() for name, one in made.items()}
    for step in range(first + 1, STEPS + 1):
        while checkpointer is not None and step == STEPS and GENERATION <= KILLS:
            time.sleep(0.02)  # a kill that comes late still finds it at work
        losses, seen = {}, {}
        for name, one in made.items():
            x, places = next(batches[name])
            losses[name], seen[name] = one.learn(x).hex(), places.tolist()
        elaunch.step(step)
        record(which, step=step, losses=losses, seen=seen)
        if checkpointer is not None and step % EVERY == 0:
            checkpointer.save(step)
    held = {name: {part: item.state_dict() for part, item in one.state().items()} for name, one in made.items()}
    record(f"{which} end", digests=digests({**held, "rng": RNG().state_dict()}))


def main() -> None:
    if GENERATION == 1:
        train("undisturbed", variants(), 0, None)
    made = variants()
    state = {f"{name}_{part}": item for name, one in made.items() for part, item in one.state().items()}
    checkpointer = Checkpointer(OUT / "checkpoints", state, keep_last=2)
    first = checkpointer.restore()
    record("restored", step=first)
    train("disturbed", made, first, checkpointer)
    checkpointer.close()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
