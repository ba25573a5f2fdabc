"""A rank of bench/checkpoint.py: saves and restores of one state, by turns with stock DCP and with the bare disk.

Arguments: a folder, bytes of state, repetitions, "-" or the number of ranks whose checkpoints are restored as well.
Rank 0 writes its figures to ``<folder>/<world size>.json``: seconds, but for ``copies``, which is memory as a multiple
of the state.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from elaunch.checkpoint import Checkpointer

WIDTH = 2048


def model(size: int) -> torch.nn.Module:
    """A model of so many bytes, sharded over all ranks."""
    layers = max(size // (WIDTH * WIDTH * 4), 1)
    made = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    return fully_shard(made, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))


def shards(made: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().to_local() for parameter in made.parameters()]


class Bench:
    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.world = dist.get_world_size()
        self.first = dist.get_rank() == 0
        self.model = model(size)
        self.samples: dict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """The seconds until the last rank is done."""
        dist.barrier()
        began = time.perf_counter()
        work()
        self.add(name, time.perf_counter() - began)

    def add(self, name: str, value: float) -> None:
        """The largest value of all ranks."""
        largest = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        self.samples[name].append(largest.item())

    def memcpy(self, kept: list[torch.Tensor]) -> None:
        self.timed("memcpy", lambda: [here.copy_(there) for here, there in zip(kept, shards(self.model), strict=True)])

    def save(self, checkpointer: Checkpointer, step: int, warm: bool) -> None:
        dist.barrier()
        before = resident()
        began = time.perf_counter()
        checkpointer.save(step)
        blocked = time.perf_counter() - began
        outcome = checkpointer.wait()
        ended = time.perf_counter() - began
        if outcome.error:
            raise RuntimeError(outcome.error)
        if warm:
            self.add("save, first, blocked", blocked)
            extra = torch.tensor([peak() - before], dtype=torch.float64)
            dist.all_reduce(extra)
            self.samples["copies"].append(extra.item() / (sum(s.numel() * 4 for s in shards(self.model)) * self.world))
            return
        self.add("save, blocked", blocked)
        self.add("save, to the end", ended)

    def stock_save(self, step: int) -> None:
        path = self.folder / f"stock-{self.world}"
        if self.first:
            shutil.rmtree(path, ignore_errors=True)
        dist.barrier()
        began = time.perf_counter()
        state = {"model": get_model_state_dict(self.model)}
        pending = dcp.async_save(state, checkpoint_id=path, process_group=self.gloo())
        self.add("stock save, blocked", time.perf_counter() - began)
        pending.result()
        self.add("stock save, to the end", time.perf_counter() - began)

    def gloo(self) -> dist.ProcessGroup:
        if not hasattr(self, "_gloo"):
            self._gloo = dist.new_group(backend="gloo")
        return self._gloo

    def dd_write(self, size: int) -> None:
        target = self.folder / "dd"
        if self.first:
            target.unlink(missing_ok=True)
        command = ["dd", "if=/dev/zero", f"of={target}", "bs=4M", f"count={size >> 22}", "conv=fsync", "status=none"]
        self.timed("dd, writing", lambda: self.first and subprocess.run(command, check=True))

    def restores(self, source: int) -> None:
        """From what ``source`` ranks saved: elaunch, stock DCP and dd, each from the disk and not from memory."""
        name = "restore" if source == self.world else f"restore {source} to"
        ours, stock = self.folder / f"ours-{source}", self.folder / f"stock-{source}"
        files = [path for path in ours.glob("step-*/*") if path.is_file()]

        self.forget(files)
        reader = Checkpointer(ours, {"model": self.model})
        self.blank()
        self.timed(name, reader.restore)
        self.timed(f"{name}, from memory", reader.restore)
        reader.close()
        self.check()

        self.forget(list(stock.iterdir()))
        state = {"model": get_model_state_dict(self.model)}
        self.blank()
        self.timed(f"stock {name}", lambda: dcp.load(state, checkpoint_id=stock))
        self.check()
        self.timed(f"stock {name}, from memory", lambda: dcp.load(state, checkpoint_id=stock))

        self.forget(files)
        command = ["dd", "of=/dev/null", "bs=4M", "status=none"]
        self.timed(
            f"dd, reading, {name}",
            lambda: self.first and [subprocess.run([*command, f"if={path}"], check=True) for path in files],
        )

    def blank(self) -> None:
        for shard in shards(self.model):
            shard.zero_()

    def mark(self) -> None:
        """Values that a restore can be held against, whichever rank has them."""
        for number, shard in enumerate(shards(self.model)):
            shard.fill_(number + 1)

    def check(self) -> None:
        if not all(bool((shard == number + 1).all()) for number, shard in enumerate(shards(self.model))):
            raise RuntimeError("what was restored is not what was saved")

    def forget(self, files: list[Path]) -> None:
        """Take files out of the page cache."""
        dist.barrier()
        if self.first:
            for path in files:
                fd = os.open(path, os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
        dist.barrier()


def resident() -> int:
    """Bytes of memory now, without what was freed; from now on peak() is counted anew."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def main() -> None:
    folder, size, repetitions, other = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo")
    bench = Bench(folder, size)
    bench.mark()
    kept = [torch.zeros_like(shard) for shard in shards(bench.model)]
    total = sum(shard.numel() * 4 for shard in kept) * bench.world
    with Checkpointer(folder / f"ours-{bench.world}", {"model": bench.model}, keep_last=1) as checkpointer:
        bench.save(checkpointer, 0, warm=True)
        for step in range(1, repetitions + 1):
            bench.memcpy(kept)
            bench.save(checkpointer, step, warm=False)
            bench.stock_save(step)
            bench.dd_write(total)
    del kept
    for _ in range(repetitions):
        bench.restores(bench.world)
        if other != "-":
            bench.restores(int(other))
    if bench.first:
        (folder / f"{bench.world}.json").write_text(json.dumps(bench.samples))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
