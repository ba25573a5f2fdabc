"""Train a small network on scikit-learn's handwritten digits: DDP, with checkpoints that survive any kill.

    elaunch --nproc-per-node=2 --max-restarts=3 examples/train_ddp.py --checkpoint-dir /tmp/digits
    torchrun --nproc-per-node=2 --max-restarts=3 examples/train_ddp.py --checkpoint-dir /tmp/digits

After a restart it goes on from the newest checkpoint (elaunch.checkpoint). At an equal world size the losses are
those of an undisturbed run to the bit: parameters, optimizer, random numbers and the place in the data are all
carried over. At another world size the global batch stays what it was, where it can be divided. On several nodes
the checkpoint directory has to be on a file system that they share.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from elaunch.checkpoint import Checkpointer, ElasticSampler


def digits() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    """1,437 images to train on, and 360 with their labels to test with."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    held_out = torch.arange(len(x)) % 5 == 0
    return TensorDataset(x[~held_out], y[~held_out]), x[held_out], y[held_out]


def network() -> nn.Module:
    hidden = [nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(64, 10))


def settle_buckets(model: DistributedDataParallel, device: torch.device) -> None:
    """Two passes for nothing: DDP lays its buckets out anew after the first backward, and with them the order
    of summation. With that behind it, a resumed run sums in the same order as one that was never stopped.
    """
    for _ in range(2):
        model(torch.zeros(1, 64, device=device)).sum().backward()
    model.zero_grad(set_to_none=True)


class Training:
    """The model, its optimizer, and how far they are."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.rank, self.device = dist.get_rank(), device
        torch.manual_seed(seed)  # the same parameters on every rank
        self.model = DistributedDataParallel(network().to(device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.step = 0
        settle_buckets(self.model, device)
        torch.manual_seed(seed + 1 + self.rank)  # its own dropout on every rank

    def learn(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """One step; the mean loss of all ranks."""
        loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        return mean.item()


def say(text: str) -> None:
    """One write, so that the lines of several ranks do not run into each other."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def train(options: argparse.Namespace, device: torch.device) -> None:
    """Train to the end, from the newest checkpoint."""
    data, test_x, test_y = digits()
    run, world = Training(options.seed, device), dist.get_world_size()
    sampler = ElasticSampler(data, seed=options.seed, tail="pad")
    checkpointer = None
    if options.checkpoint_dir:
        state = {"model": run.model, "optimizer": run.optimizer, "data": sampler}
        checkpointer = Checkpointer(options.checkpoint_dir, state, keep_last=options.keep)
        run.step = checkpointer.restore()
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    generation = int(os.environ.get("ELAUNCH_GENERATION", restarts + 1))
    place = f"rank {run.rank} of {world}  pid {os.getpid()}  device {device}"
    say(f"{place}  generation {generation}  restarts {restarts}: starts after step {run.step}")
    divisible = options.batch_size % world == 0
    if not divisible and run.rank == 0:
        say(f"a global batch of {options.batch_size} cannot be divided by {world}: it is rounded up")
    loader = DataLoader(data, batch_size=-(-options.batch_size // world), sampler=sampler)
    log = open(options.loss_log, "a", buffering=1) if options.loss_log and run.rank == 0 else None  # noqa: SIM115
    for epoch in range(sampler.epoch, options.epochs):
        if options.steps and run.step >= options.steps:
            break
        sampler.set_epoch(epoch)
        for x, y in sampler.track(loader):
            loss = run.learn(x, y)
            if log:
                line = {"step": run.step, "loss": loss, "generation": generation, "world": world}
                log.write(json.dumps({**line, "time": time.time()}) + "\n")
            if run.rank == 0 and run.step % options.print_every == 0:
                say(f"step {run.step}  loss {loss:.4f}  generation {generation}  world {world}")
            if checkpointer and run.step % options.checkpoint_every == 0:
                checkpointer.save(run.step)
            if run.step == options.steps:
                break
            time.sleep(options.step_delay)
    if checkpointer:
        checkpointer.close()
    if run.rank == 0:
        run.model.eval()
        right = (run.model.module(test_x.to(run.device)).argmax(1).cpu() == test_y).float().mean()
        say(f"done: step {run.step}, {right:.1%} of the {len(test_y)} test images are recognised")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on handwritten digits, with DDP and checkpoints.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=0, help="stop after this many, 0 for no limit")
    parser.add_argument("--batch-size", type=int, default=48, help="samples per step of all ranks together")
    parser.add_argument("--checkpoint-dir", type=Path, help="go on from the newest one here, and write more")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--keep", type=int, default=2, help="checkpoints that stay")
    parser.add_argument("--loss-log", type=Path, help="append a JSON line for each step")
    parser.add_argument("--print-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--step-delay", type=float, default=0, metavar="SECONDS", help="as if it were larger")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@record
def main() -> None:
    options = parse()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.set_num_threads(1)  # the number of threads must not change the sums
    dist.init_process_group("nccl" if cuda else "gloo")
    # The model lives and dies in there. Should it outlive its process group, torch 2.13 can hang with Gloo,
    # as it joins the group's thread while it holds the interpreter lock, which that thread may still need.
    train(options, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
