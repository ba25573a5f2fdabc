"""The training into which faults are injected: ``surviving DIRECTORY``. It ends at SIGUSR1.

DistributedDataParallel with checkpoints below DIRECTORY ("-": without). Every step's loss is told: whoever starts this
compares those of steps that were done again. At the end it is trained once more from the beginning, which nothing
disturbs, and those losses are told as well.
"""

import signal
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import elaunch
from elaunch.checkpoint import Checkpointer
from elaunch.qualify.programs.machine import tell_machine
from elaunch.qualify.programs.place import TIMEOUT, backend
from elaunch.qualify.programs.telling import GENERATION, LOCAL_RANK, path, tell

SAVE_EVERY = 5
LONGEST_SAVE = 10.0  # seconds
PACE = 0.02  # seconds: as if it were a larger model
UNDISTURBED = 60  # steps

_end = [False]


def _told(*_: object) -> None:
    _end[0] = True


def main() -> None:
    signal.signal(signal.SIGUSR1, _told)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(LOCAL_RANK % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    dist.init_process_group(backend(), timeout=TIMEOUT)
    if GENERATION == 1:
        tell_machine()
    train(sys.argv[1], device)
    repeat(device)
    dist.destroy_process_group()
    tell("end", torn_down=True)


def train(directory: str, device: torch.device) -> None:
    """From the newest checkpoint on, until it is told to end."""
    model, optimizer = made(device)
    state = {"model": model, "optimizer": optimizer}
    with Checkpointer(directory, state, timeout=LONGEST_SAVE) if directory != "-" else nullcontext() as checkpoints:
        step = checkpoints.restore() if checkpoints is not None else 0
        tell("restored", step=step, path=path())
        while True:
            loss = trained(model, optimizer, step, device)
            step += 1
            elaunch.step(step)
            told = torch.stack([loss, torch.tensor(float(_end[0]), device=device)])
            dist.all_reduce(told)
            if dist.get_rank() == 0:
                tell("loss", step=step, loss=told[0].item())
            if checkpoints is not None and step % SAVE_EVERY == 0:
                checkpoints.save(step)
            if told[1].item():
                break
            time.sleep(PACE)


def repeat(device: torch.device) -> None:
    """The first steps once more."""
    model, optimizer = made(device)
    for step in range(UNDISTURBED):
        loss = trained(model, optimizer, step, device)
        dist.all_reduce(loss)
        if dist.get_rank() == 0:
            tell("undisturbed", step=step + 1, loss=loss.item())


def made(device: torch.device) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """The model and its optimizer, as at step 0."""
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Tanh())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def trained(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int, device: torch.device
) -> torch.Tensor:
    """One step more; its loss on this rank."""
    batch = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    loss = model(torch.randn(8, 16, generator=batch).to(device)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


main()
