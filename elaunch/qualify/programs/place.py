"""Where a rank of the cells stands: its device, its process group, the store by which ranks tell each other."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from elaunch.qualify.programs.telling import LOCAL_RANK

TIMEOUT = datetime.timedelta(seconds=30)


def backend() -> str:
    return "nccl" if torch.cuda.is_available() else "gloo"


@dataclass(frozen=True, slots=True)
class Place:
    """``spoiled``: this cell's result is to be falsified on the last rank, to see that it is found."""

    rank: int
    world: int
    device: Any
    store: Any
    spoiled: bool = False

    @classmethod
    def open(cls) -> Place:
        """Make the process group, and take its store."""
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(LOCAL_RANK % torch.cuda.device_count())
        device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        dist.init_process_group(backend(), timeout=TIMEOUT)
        store = dist.PrefixStore("qualify", dist.distributed_c10d._get_default_store())
        return cls(dist.get_rank(), dist.get_world_size(), device, store)

    def again(self) -> Place:
        """The process group anew, after a cell that failed."""
        dist.destroy_process_group()
        return replace(Place.open(), store=self.store)

    @property
    def falsifies(self) -> bool:
        return self.spoiled and self.rank == self.world - 1

    def spoil(self, tensor: Any) -> None:
        """Make a wrong result of a right one, where that is asked for."""
        if self.falsifies:
            with torch.no_grad():
                tensor[(0,) * tensor.dim()] += 1
