"""How long a step takes with and without its communication: what is exposed of it is the difference."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from elaunch.qualify.programs.place import Place
from elaunch.qualify.programs.telling import tell
from elaunch.qualify.programs.training import ddp
from elaunch.qualify.programs.trying import Handler

_STEPS = 8
_WIDTH = 256
_BUCKETS = {"one bucket": 1000.0, "25 MiB buckets": 25.0, "256 KiB buckets": 0.25}


def _exposed(place: Place) -> str:
    words = []
    for name, cap in _BUCKETS.items():
        torch.manual_seed(0)
        layers = [layer for _ in range(8) for layer in (nn.Linear(_WIDTH, _WIDTH), nn.ReLU())]
        model = ddp(place, bucket_cap_mb=cap)(nn.Sequential(*layers).to(place.device))
        x = torch.randn(64, _WIDTH, device=place.device)
        without = _step(place, model, x, model.no_sync)
        whole = _step(place, model, x, nullcontext)
        whole = 0.0 if place.falsifies else whole
        assert without > 0, f"{name}: a step without communication takes {without:g} s"
        assert whole > 0, f"{name}: a step takes {whole:g} s"
        tell("step", name=name, compute=min(without, whole), exposed=max(0.0, whole - without))
        words.append(f"{name} {1000 * whole:.1f} ms")
    return ", ".join(words)


def _step(place: Place, model: Any, x: Any, context: Callable[[], Any]) -> float:
    """The median of some steps, in seconds; all ranks begin each together."""
    times = []
    for n in range(_STEPS + 2):
        dist.barrier()
        begin = time.perf_counter()
        with context():
            model(x).sum().backward()
        if place.device.type == "cuda":
            torch.cuda.synchronize()
        if n >= 2:  # the first ones arrange the buckets
            times.append(time.perf_counter() - begin)
        model.zero_grad()
    return statistics.median(times)


CELLS: dict[str, Handler] = {"steps/exposed": _exposed}
