"""A training that goes on from its newest checkpoint after any loss, on as many ranks as are left.

    elaunch --standalone --nproc-per-node=2 --max-restarts=3 examples/checkpoint.py /tmp/run

On several nodes (--nnodes=1:4) the directory has to be on a file system that they share.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

import elaunch
from elaunch.checkpoint import Checkpointer, ElasticSampler

BATCH = 48  # samples per step, of all ranks together


def train(directory: str, steps: int, device: torch.device) -> None:
    world, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    x = torch.randn(4800, 16)
    data = TensorDataset(x, x.sin().sum(1, keepdim=True))
    model = fully_shard(nn.Sequential(nn.Linear(16, 100), nn.ReLU(), nn.Dropout(0.1), nn.Linear(100, 1)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    sampler = ElasticSampler(data, tail="pad")
    loader = DataLoader(data, batch_size=-(-BATCH // world), sampler=sampler)
    with Checkpointer(directory, {"model": model, "optim": optimizer, "data": sampler}, keep_every=100) as checkpoints:
        step = checkpoints.restore()
        # In one write, line end and all: every rank prints this, and print would write the end by itself.
        print(f"rank {rank} of {world}, pid {os.getpid()}: goes on from step {step}\n", end="", flush=True)
        while step < steps:
            for inputs, targets in sampler.track(loader):
                loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                elaunch.step(step)
                stop = elaunch.should_stop(agree=True) or step == steps
                if stop or step % 20 == 0:
                    checkpoints.save(step)
                if rank == 0 and (stop or step % 10 == 0):
                    print(f"step {step} of {world} ranks: loss {loss.item():.4f}", flush=True)
                if stop:
                    return
                time.sleep(0.05)  # as if it were a larger model


if __name__ == "__main__":
    gpu = torch.cuda.is_available()
    here = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo", device_id=here if gpu else None)
    train(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000, here)
    dist.destroy_process_group()
