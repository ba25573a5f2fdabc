"""A sampler for map-style data sets whose place in an epoch does not depend on how many ranks there are.

The epoch's order is drawn from the seed and the epoch alone. What is kept is how many samples of it were used, by all
ranks together; from there rank r of W takes every W-th sample. So each sample of an epoch is seen exactly once, though
the world changed in the middle, however often.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from elaunch.checkpoint.state.loaders import asked_by_torchdata, batch_of, fetched_ahead
from elaunch.errors import StateError

_log = logging.getLogger("elaunch.checkpoint")
_CHUNK = 4096  # samples
Tail = Literal["exact", "pad", "drop"]


class ElasticSampler(Sampler):  # type: ignore[misc]
    """Shuffled (or not) shares of a data set, for ``DataLoader(data, sampler=...)``. All ranks have the same state.

    Iterate ``sampler.track(loader)``, not the loader: it counts what came out of it, since a DataLoader with workers
    fetches ahead of training. Without that ``state_dict`` refuses where there are workers, and with ``num_workers=0``
    an epoch that is gone on with is equal to an undisturbed one to the bit only where the loader has a ``generator`` of
    its own. Wrap the loader in nothing that looks a batch ahead by itself.

    torchdata's StatefulDataLoader keeps this state along with its own, and needs no ``track`` for that; it cannot be
    restored into another world, which the sampler with ``track`` can.

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
        self._warned = False
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
        self._warn_of_unequal_shares(self.length - self._base)
        self._tracked, self._to_track = self._to_track, False
        self._restored, self._ahead = False, fetched_ahead()
        iteration, base = self._iteration, self._base
        for sample in self._samples(base):
            if iteration == self._iteration:
                self._given += 1
            yield sample
        if iteration == self._iteration:
            self._given_all = True

    def _warn_of_unequal_shares(self, left: int) -> None:
        if self.tail == "exact" and left % self._world and self._rank == 0 and not self._warned:
            self._warned = True
            _log.warning(
                "%d samples are left for %d ranks: some get one more, and may make one more step, for which DDP "
                'waits for ever; ElasticSampler(..., tail="pad") or tail="drop" gives all as many',
                left,
                self._world,
            )

    def track(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Iterate ``loader``, a DataLoader with this sampler; a batch counts from when it is handed to the loop's body.

        Raises:
            StateError: the loader has another sampler, or nothing tells how many samples are in a batch.
        """
        batch = batch_of(loader, self)
        self._to_track = True
        for item in self._iterated(loader):
            iteration = self._iteration
            self._taken += batch
            yield item
            if iteration != self._iteration:
                raise StateError(
                    "the sampler was restored, or given another epoch, while its loader was being iterated"
                )
        self._taken_all = True

    def _iterated(self, loader: Iterable[Any]) -> Iterator[Any]:
        """A loader draws a random number when it starts. To go on with an epoch is to start it once more, which the
        undisturbed program did not: what it draws then is given back.
        """
        goes_on = self._restored and self._base > 0 and not self._advances()
        with torch.random.fork_rng(devices=(), enabled=goes_on):
            return iter(loader)

    @property
    def differs_because(self) -> str:
        """What to do where ranks have drawn different numbers of samples."""
        if self.tail != "exact":
            return "they have drawn different numbers of samples; every rank makes the same steps"
        return (
            'they have drawn different numbers of samples; with tail="exact" some ranks get one more in an epoch: use '
            'ElasticSampler(..., tail="pad") or tail="drop", so that every rank makes the same steps'
        )

    def state_dict(self) -> dict[str, Any]:
        """Equal on all ranks between steps that all of them took.

        Raises:
            StateError: a loader with workers is iterated without ``track``: how far training is cannot be known.
        """
        by_loader = asked_by_torchdata()
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


def _place(rank: int | None, world: int | None) -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        here = dist.get_rank(), dist.get_world_size()
    else:
        here = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    return here[0] if rank is None else rank, here[1] if world is None else world
