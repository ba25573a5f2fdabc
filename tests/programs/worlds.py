"""A program for tests: makes worlds that are unusual and none of them wrong, on four ranks.

One after the other: a world of each rank's own, one of two ranks at the generation's store while the others wait in
that of all, one in another order than the launcher's, and one through a store that the program has opened. And
meshes in which nobody waits for those who make another: of each rank's own, and of two ranks, of the others none.
"""

import os
import pickle
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WAIT = 1.5  # seconds: longer than a conflict must hold


def used() -> None:
    dist.barrier()
    dist.destroy_process_group()


def meshes() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    assert dist.device_mesh.DeviceMesh("cpu", [RANK]).size() == 1
    if RANK < 2:
        pair = dist.device_mesh.DeviceMesh("cpu", [0, 1])
        total = torch.ones(1)
        dist.all_reduce(total, group=pair.get_group())
        assert int(total) == 2
    used()


def main() -> None:
    assert pickle.loads(pickle.dumps(dist.destroy_process_group)) is dist.destroy_process_group
    dist.init_process_group("gloo", init_method=f"file://{os.environ['OUT']}/{RANK}.own", rank=0, world_size=1)
    time.sleep(WAIT if RANK == 1 else 0)
    used()
    if RANK < 2:
        dist.init_process_group("gloo", rank=RANK, world_size=2)
        time.sleep(WAIT)
        used()
    dist.init_process_group("gloo")
    used()
    dist.init_process_group("gloo", rank=WORLD - 1 - RANK, world_size=WORLD)
    told = torch.tensor([RANK])
    dist.broadcast(told, 0)
    assert int(told) == WORLD - 1
    used()
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    dist.init_process_group("gloo", store=dist.PrefixStore("mine", store), rank=RANK, world_size=WORLD)
    used()
    meshes()
    (Path(os.environ["OUT"]) / f"{RANK}.done").touch()


if __name__ == "__main__":
    main()
