"""How the ranks of a checkpointer talk to each other: bytes, in rounds that all of them take part in.

They have connections of their own, apart from the program's process groups: a save goes on behind the training, and
while the program takes its groups down. A round that a rank does not join ends for the others after ``timeout``; at
once where its process ends, or an error takes it out of its rounds (:func:`rounds`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from elaunch.checkpoint.storages.failures import line
from elaunch.errors import CheckpointError
from elaunch.worker.error_file import leave
from elaunch.worker.progress import unwatched

_LONGER = 5.0  # seconds beside a round's own: for a launcher to hear of the rank that is late, and to stop all


class Ranks(Protocol):
    """All ranks of a job. Every rank calls the same methods in the same order, from one thread at a time."""

    rank: int
    size: int

    def gather(self, mine: bytes) -> list[bytes]:
        """What each rank gave, on rank 0; nothing on the others."""

    def share(self, mine: bytes) -> list[bytes]:
        """What each rank gave, on all of them."""

    def tell(self, data: bytes) -> bytes:
        """What rank 0 gave."""

    def deal(self, shares: list[bytes]) -> bytes:
        """What rank 0 has for this rank; the others give nothing."""

    def leave(self, why: str) -> None:
        """Take part in no round any more: those of the others end, and so does each later one of this rank.

        They raise CheckpointError.
        """

    @property
    def left(self) -> bool:
        """Whether there can be no rounds any more, as far as this rank knows."""


class Alone:
    """A program of one process."""

    rank = 0
    size = 1

    def gather(self, mine: bytes) -> list[bytes]:
        return [mine]

    def share(self, mine: bytes) -> list[bytes]:
        return [mine]

    def tell(self, data: bytes) -> bytes:
        return data

    def deal(self, shares: list[bytes]) -> bytes:
        return shares[0]

    def leave(self, why: str) -> None:
        """Nobody waits."""

    @property
    def left(self) -> bool:
        return False


class _Row:
    """Bytes that torch can send; at least one, for Gloo has no use for none."""

    def __init__(self, length: int, data: bytes = b"") -> None:
        self._bytes = bytearray(data.ljust(max(length, 1), b"\0"))
        self.tensor = torch.frombuffer(self._bytes, dtype=torch.uint8)

    def read(self, length: int) -> bytes:
        return bytes(self._bytes[:length])


class Together:
    """The ranks of the default process group, over connections of their own (Gloo). Raises CheckpointError."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: float) -> None:
        self.rank = rank
        self.size = size
        self._why = ""
        try:
            self._open: dist.ProcessGroupGloo | None = dist.ProcessGroupGloo(
                store, rank, size, timedelta(seconds=timeout)
            )
            with unwatched():
                first = self._group.barrier()
        except RuntimeError as error:
            raise CheckpointError(
                f"rank {rank}: no connection to the other ranks; every rank makes a Checkpointer, "
                f"in the same place ({_line(error)})"
            ) from error
        self._wait(first)

    @property
    def left(self) -> bool:
        return self._open is None

    def leave(self, why: str) -> None:
        self._why = self._why or why
        self._open = None  # which closes its connections

    @property
    def _group(self) -> dist.ProcessGroupGloo:
        if self._open is None:
            raise CheckpointError(f"rank {self.rank}: takes part in nothing any more: {self._why}")
        return self._open

    def gather(self, mine: bytes) -> list[bytes]:
        sizes = self._sizes(mine)
        rows = [_Row(max(sizes)) for _ in sizes] if self.rank == 0 else []
        options = dist.GatherOptions()
        options.rootRank = 0
        received = [[row.tensor for row in rows]] if rows else []
        self._wait(self._group.gather(received, [_Row(max(sizes), mine).tensor], options))
        return [row.read(size) for row, size in zip(rows, sizes, strict=False)]

    def share(self, mine: bytes) -> list[bytes]:
        sizes = self._sizes(mine)
        rows = [_Row(max(sizes)) for _ in sizes]
        self._wait(self._group.allgather([[row.tensor for row in rows]], [_Row(max(sizes), mine).tensor]))
        return [row.read(size) for row, size in zip(rows, sizes, strict=True)]

    def tell(self, data: bytes) -> bytes:
        mine = data if self.rank == 0 else b""
        size = self._sizes(mine)[0]
        row = _Row(size, mine)
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._wait(self._group.broadcast([row.tensor], options))
        return row.read(size)

    def deal(self, shares: list[bytes]) -> bytes:
        longest = max(map(len, shares), default=0)
        longest = int.from_bytes(self.tell(longest.to_bytes(8, "little")), "little")
        rows = [_Row(8 + longest, len(share).to_bytes(8, "little") + share).tensor for share in shares]
        mine = _Row(8 + longest)
        options = dist.ScatterOptions()
        options.rootRank = 0
        self._wait(self._group.scatter([mine.tensor], [rows] if self.rank == 0 else [], options))
        length = int.from_bytes(mine.read(8), "little")
        return mine.read(8 + length)[8:]

    def _sizes(self, mine: bytes) -> list[int]:
        rows = [torch.empty(1, dtype=torch.int64) for _ in range(self.size)]
        self._wait(self._group.allgather([rows], [torch.tensor([len(mine)])]))
        return [int(row) for row in rows]

    def _wait(self, work: dist.Work) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            why = (
                "another rank did not answer; it has ended, or has not made the same call: save, restore and close are "
                f"made by every rank ({_line(error)})"
            )
            self.leave(why)  # or an answer that comes late would be taken for one of the next round
            raise CheckpointError(f"rank {self.rank}: {why}") from error


@contextmanager
def rounds(*ranks: Ranks, fatal: bool = False) -> Iterator[None]:
    """Rounds that belong together: what ends them on one rank alone ends them on all.

    The others would wait for it until their timeout, or take for its answer what it says in a round of something else.
    A CheckpointError is none of that: it is raised on all ranks alike. With ``fatal`` no program goes on after such an
    error: word of it is left for the agent before the others hear of it, as they may end before this rank does.
    """
    try:
        yield
    except CheckpointError:
        raise
    except BaseException as error:
        if fatal and isinstance(error, Exception):
            leave(error, error.__traceback__)
        for one in ranks:
            one.leave(line(error))
        raise


def connect(timeout: float, count: int) -> list[Ranks]:
    """So many independent connections of the ranks of this job; of one process alone where there is no process group.

    Collective: every rank calls it, equally often. ``timeout`` is seconds for each round, after which a launcher is to
    tell who is late; the others wait a little longer, or their giving up would be told first. Raises CheckpointError.
    """
    timeout += min(_LONGER, timeout / 2)
    together = dist.is_available() and dist.is_initialized()
    if not together and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CheckpointError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']} and there is no process group; "
            "call torch.distributed.init_process_group() before a Checkpointer is made"
        )
    if not together or dist.get_world_size() == 1:
        return [Alone() for _ in range(count)]
    store = dist.distributed_c10d._get_default_store()
    number = store.add(f"elaunch/checkpoint/opened/{dist.get_rank()}", 1)  # not counted here: processes come and go
    return [
        Together(
            dist.PrefixStore(f"elaunch/checkpoint/{number}.{which}", store),
            dist.get_rank(),
            dist.get_world_size(),
            timeout,
        )
        for which in range(count)
    ]


def _line(error: BaseException) -> str:
    """What it says; of Gloo, without the line of its source and its advice."""
    said = str(error).strip().splitlines()
    if not said:
        return type(error).__name__
    told = re.sub(r"^\[[^\]]*\.cc:\d+\] ", "", said[0])
    return told.partition(" This is typically caused by")[0].rstrip(".")[:300]
