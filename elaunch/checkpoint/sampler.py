"""A sampler for map-style data sets whose place in an epoch does not depend on how many ranks there are.

The epoch's order is drawn from the seed and the epoch alone. What is kept is how many samples of it were used, by all
ranks together; from there rank r of W takes every W-th sample. So each sample of an epoch is seen exactly once, though
the world changed in the middle, however often.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sized
from types import FrameType
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from elaunch.errors import StateError

_CHUNK = 4096  # samples
_CALLERS = 8  # frames between a loader and its sampler: there are 4 in torch 2.13
Tail = Literal["exact", "pad", "drop"]


class ElasticSampler(Sampler):  # type: ignore[misc]
    """Shuffled (or not) shares of a data set, for ``DataLoader(data, sampler=...)``. All ranks have the same state.

    It counts what it hands out. With ``num_workers=0`` that is what training used. A DataLoader with workers fetches
    ahead of training: iterate ``sampler.track(loader)`` then, which counts what came out of it. Without that
    ``state_dict`` refuses. torchdata's StatefulDataLoader keeps this state along with its own, and needs no ``track``
    for that; it cannot be restored into another world, which the sampler with ``track`` can.

    ``set_epoch(e)`` starts epoch e, as with DistributedSampler; only the epoch that was restored is gone on with.
    Without any ``set_epoch``, each iteration after a complete one is the next epoch.

    Args:
        data: the data set, or its length.
        tail: what becomes of the samples left when the rest of the epoch does not divide by the number of ranks.
            "exact": some ranks get one more, so every sample is seen exactly once; ranks may then differ in their
            number of batches, which under DDP or FSDP waits for ever at the last one, unless the loop asks, or joins.
            "pad": the first samples of the epoch again, so that all get as many. "drop": they are not seen.
        rank, world: by default those of torch.distributed, or of the environment. With tensor parallelism give those
            of the data-parallel dimension of the mesh: ranks that share a batch must draw the same samples.
    """

    def __init__(
        self,
        data: Sized | int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        tail: Tail = "exact",
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        self.length = data if isinstance(data, int) else len(data)
        self.shuffle, self.seed, self.tail = shuffle, seed, tail
        self.epoch = 0
        self._rank, self._world = _place(rank, world)
        self._by_hand = False  # set_epoch is called by the program
        self._restored = False
        self._tracked = self._to_track = False  # the current iteration, and the next one
        self._ahead = False  # the current iteration is that of a loader that fetches ahead
        self._iteration = 0
        self._begin(0)

    def set_epoch(self, epoch: int) -> None:
        """Start ``epoch``. Right after a restore into the middle of it, or to its end, this changes nothing."""
        self._by_hand = True
        if not (self._restored and epoch == self.epoch):
            self.epoch = epoch
            self._begin(0)
            self._restored = False

    def __len__(self) -> int:
        """Samples of this rank in the current iteration, or the next one if none has begun."""
        return self._share(self.length - (0 if self._advances() else self._base))

    def __iter__(self) -> Iterator[int]:
        # A generator: it starts with the first sample, since loaders also make iterators that they never use.
        if self._advances():
            self.epoch += 1
            self._begin(0)
        else:
            self._begin(self._position(self._tracked))
        self._tracked, self._to_track = self._to_track, False
        self._restored, self._ahead = False, _fetched_ahead()
        iteration, base = self._iteration, self._base
        for sample in self._samples(base):
            if iteration == self._iteration:
                self._given += 1
            yield sample
        if iteration == self._iteration:
            self._given_all = True

    def track(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Iterate ``loader``, a DataLoader with this sampler; a batch counts from when it is handed to the loop's body.

        Raises:
            StateError: the loader has another sampler, or nothing tells how many samples are in a batch.
        """
        batch = self._batch_of(loader)
        self._to_track = True
        for item in loader:
            iteration = self._iteration
            self._taken += batch
            yield item
            if iteration != self._iteration:
                raise StateError(
                    "the sampler was restored, or given another epoch, while its loader was being iterated"
                )
        self._taken_all = True

    def state_dict(self) -> dict[str, Any]:
        """Equal on all ranks between steps that all of them took.

        Raises:
            StateError: a loader with workers is iterated without ``track``: how far training is cannot be known.
        """
        by_loader = _asked_by_torchdata()
        if self._ahead and not self._tracked and not by_loader:
            raise StateError(
                "the DataLoader fetches samples ahead of training with its workers, so how far training is cannot be "
                "known; iterate sampler.track(loader) instead of loader"
            )
        return {
            "epoch": self.epoch,
            "consumed": self._position(self._tracked and not by_loader),
            "seed": self.seed,
            "length": self.length,
            "shuffle": self.shuffle,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was, in its order: the saved seed is taken over.

        Raises:
            StateError: it is of a data set of another length, or no state of such a sampler.
        """
        try:
            epoch, consumed, seed, length, shuffle = (
                state[key] for key in ("epoch", "consumed", "seed", "length", "shuffle")
            )
        except (KeyError, TypeError):
            raise StateError("what was saved is not the state of an ElasticSampler") from None
        if length != self.length:
            raise StateError(
                f"the data set has {self.length} samples, and had {length} when the sampler's state was saved: a place "
                "in the one means nothing in the other; begin an epoch, without the sampler's state"
            )
        self.epoch, self.seed, self.shuffle = epoch, seed, shuffle
        self._begin(min(max(consumed, 0), length))
        self._restored = True

    def _begin(self, base: int) -> None:
        """Count from ``base``, the number of samples of the epoch that are used, on."""
        self._base = base
        self._given = self._taken = 0  # samples of this rank: handed out, and known to be used
        self._given_all = self._taken_all = False
        self._iteration = self._iteration + 1

    def _position(self, tracked: bool) -> int:
        """How many samples of the epoch are used, or else handed out.

        By the number of samples per rank, so that it is equal on all ranks.
        """
        taken, everything = (self._taken, self._taken_all) if tracked else (self._given, self._given_all)
        return self.length if everything else min(self._base + self._world * taken, self.length)

    def _advances(self) -> bool:
        """Is the epoch complete, and the next iteration therefore of the next one?"""
        return 0 < self.length == self._position(self._tracked) and not (self._restored and self._by_hand)

    def _share(self, rest: int) -> int:
        if self.tail == "exact":
            return max(0, -((self._rank - rest) // self._world))
        return -(-rest // self._world) if self.tail == "pad" else rest // self._world

    def _samples(self, base: int) -> Iterator[int]:
        rest = self.length - base
        places = base + self._rank + self._world * torch.arange(self._share(rest))
        order = self._order()
        for chunk in places.split(_CHUNK):
            wrapped = torch.where(chunk < self.length, chunk, (chunk - self.length) % max(self.length, 1))
            yield from (wrapped if order is None else order[wrapped]).tolist()

    def _order(self) -> Any:
        if not self.shuffle:
            return None
        drawn = hashlib.blake2b(f"{self.seed}:{self.epoch}".encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(drawn, "big") >> 1)
        return torch.randperm(self.length, generator=generator)

    def _batch_of(self, loader: Any) -> int:
        """Samples in a full batch of ``loader``."""
        batches = getattr(loader, "batch_sampler", None)
        if self not in (getattr(loader, "sampler", None), getattr(batches, "sampler", None)):
            raise StateError(
                "track: this is not the sampler of the loader; make it with DataLoader(data, sampler=sampler)"
            )
        if not getattr(loader, "in_order", True):
            raise StateError(
                "track: a loader with in_order=False gives batches in an order that cannot be gone on with"
            )
        size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", 1 if batches is None else None)
        if not isinstance(size, int):
            raise StateError(
                "track: the loader's batch sampler has no batch_size, so what a batch uses cannot be known"
            )
        return size


def _place(rank: int | None, world: int | None) -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        here = dist.get_rank(), dist.get_world_size()
    else:
        here = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    return here[0] if rank is None else rank, here[1] if world is None else world


def _fetched_ahead() -> bool:
    """Is a DataLoader with workers asking? Then samples are handed out long before training has them."""
    for frame in _callers():
        asking = frame.f_locals.get("self")
        if type(asking).__module__.startswith(("torch.utils.data.", "torchdata.")) and _workers(asking) > 0:
            return True
    return False


def _asked_by_torchdata() -> bool:
    """Is a StatefulDataLoader asking, for the state that goes with the samples it has just been handed?"""
    return any(str(frame.f_globals.get("__name__")).startswith("torchdata.") for frame in _callers())


def _callers() -> Iterator[FrameType]:
    frame = sys._getframe(2).f_back
    for _ in range(_CALLERS):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _workers(asking: object) -> int:
    number = getattr(asking, "_num_workers", 0)
    return number if isinstance(number, int) else 0
