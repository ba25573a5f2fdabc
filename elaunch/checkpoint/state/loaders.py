"""What a sampler has to know of the loader that asks it for samples, which does not say who it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from elaunch.errors import StateError

_CALLERS = 8  # frames between a loader and its sampler: there are 4 in torch 2.13


def batch_of(loader: Any, sampler: object) -> int:
    """Samples in a full batch of ``loader``, whose batches come in the order of ``sampler``.

    Raises:
        StateError: they do not, or nothing tells how many.
    """
    batches = getattr(loader, "batch_sampler", None)
    if sampler is not getattr(loader, "sampler", None) and sampler is not getattr(batches, "sampler", None):
        raise StateError("track: this is not the sampler of the loader; make it with DataLoader(data, sampler=sampler)")
    if not getattr(loader, "in_order", True):
        raise StateError("track: a loader with in_order=False gives batches in an order that cannot be gone on with")
    size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", 1 if batches is None else None)
    if not isinstance(size, int):
        raise StateError("track: the loader's batch sampler has no batch_size, so what a batch uses cannot be known")
    return size


def fetched_ahead() -> bool:
    """Is a DataLoader with workers asking? Then samples are handed out long before training has them."""
    for frame in _callers():
        asking = frame.f_locals.get("self")
        if type(asking).__module__.startswith(("torch.utils.data.", "torchdata.")) and _workers(asking) > 0:
            return True
    return False


def asked_by_torchdata() -> bool:
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
