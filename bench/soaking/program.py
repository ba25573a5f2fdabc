"""The training of bench/soak.py: a rank of it under elaunch, or all of it in one process, undisturbed.

    elaunch ... program.py FOLDER       a rank; it ends once FOLDER/stop is there
    python program.py --reference       for each number N on stdin: the steps up to N, a line of JSON each

Whatever the number of ranks, a step is the same twelve samples, and its gradient their mean, in double precision: the
curves differ by the order of a sum only. Each rank writes what it does to FOLDER/lines, with CLOCK_MONOTONIC, which is
the same for all hosts of a laboratory.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import elaunch
from elaunch.checkpoint import Checkpointer, ElasticSampler

SAMPLES = 600
BATCH = 12  # samples of a step, by all ranks together: one to four ranks share it evenly
SAVE_EVERY = 10  # steps
LONGEST_SAVE = 15.0  # seconds
PACE = 0.04  # seconds: as if it were a larger model


class Told:
    """This rank's own file: one write a line, so that a kill leaves whole lines."""

    def __init__(self, folder: Path) -> None:
        who = int(os.environ["ELAUNCH_GENERATION"]), dist_rank(), os.getpid()
        self._same = {"generation": who[0], "rank": who[1], "pid": who[2], "world": int(os.environ["WORLD_SIZE"])}
        name = "-".join(map(str, who))
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, event: str, **values: Any) -> None:
        line = {"event": event, **self._same, "t": time.monotonic(), **values}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def dist_rank() -> int:
    return int(os.environ["RANK"])


def started() -> int:
    """When this process was started, in ticks: with its pid it is no other."""
    with open("/proc/self/stat", "rb") as file:
        stat = file.read()
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


class Training:
    """Model, optimizer, samples and their order; ``wrap`` makes DistributedDataParallel of the model."""

    def __init__(self, rank: int, world: int, wrap: bool) -> None:
        drawn = torch.Generator().manual_seed(8)
        self.inputs = torch.randn(SAMPLES, 8, generator=drawn, dtype=torch.float64)
        noise = torch.randn(SAMPLES, 1, generator=drawn, dtype=torch.float64)
        self.wanted = self.inputs.sin().sum(1, keepdim=True) + noise / 2
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).double()
        self.model = DistributedDataParallel(plain) if wrap else plain
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.5)
        self.sampler = ElasticSampler(SAMPLES, seed=3, rank=rank, world=world)
        self.loader: Any = DataLoader(range(SAMPLES), batch_size=BATCH // world, sampler=self.sampler)
        self.world = world

    def batches(self) -> Iterator[tuple[int, Any]]:
        """The epoch, and the samples of this rank's part of the next step, without end."""
        for epoch in itertools.count(self.sampler.epoch):
            self.sampler.set_epoch(epoch)
            for samples in self.sampler.track(self.loader):
                yield epoch, samples

    def step(self, samples: Any) -> Any:
        """This rank's part of the step's loss."""
        part = (self.model(self.inputs[samples]) - self.wanted[samples]).square().sum() / BATCH
        (part * self.world).backward()  # of which DDP takes the mean
        self.optimizer.step()
        self.optimizer.zero_grad()
        return part.detach()


def reference() -> None:
    """Each line of the input is a number of steps; what was not told yet up to there is, and then an empty line."""
    training, step = Training(0, 1, wrap=False), 0
    batches = training.batches()
    for line in sys.stdin:
        while step < int(line):
            epoch, samples = next(batches)
            loss = training.step(samples)
            step += 1
            print(json.dumps({"step": step, "epoch": epoch, "ids": samples.tolist(), "loss": loss.item()}))
        print(flush=True)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "--reference":
        reference()
        return
    folder = Path(sys.argv[1])
    tell = Told(folder / "lines")
    tell("start", started=started())
    dist.init_process_group("gloo")
    training = Training(dist.get_rank(), dist.get_world_size(), wrap=True)
    state = {"model": training.model, "optimizer": training.optimizer, "sampler": training.sampler}
    with Checkpointer(folder / "checkpoints", state, timeout=LONGEST_SAVE) as checkpoints:
        step = checkpoints.restore()
        tell("restored", step=step)
        train(training, checkpoints, step, folder / "stop", tell)
    dist.destroy_process_group()
    tell("end")


def train(training: Training, checkpoints: Checkpointer, step: int, stop: Path, tell: Told) -> None:
    tell("begin", step=step + 1)
    for epoch, samples in training.batches():
        began = time.monotonic()
        part = training.step(samples)
        told = torch.stack([part, torch.tensor(float(stop.exists()), dtype=torch.float64)])
        dist.all_reduce(told)
        step += 1
        tell("step", step=step, epoch=epoch, ids=samples.tolist(), loss=told[0].item(), began=began)
        elaunch.step(step)
        if step % SAVE_EVERY == 0:
            checkpoints.save(step)
        if told[1].item():
            return
        time.sleep(PACE)


if __name__ == "__main__":
    main()
