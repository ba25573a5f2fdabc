"""Checkpoint directories that are made without torch, as elaunch.checkpoint writes them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.claims import Claim, Owner, claim
from elaunch.checkpoint.records.manifest import Entry, Manifest, Origin
from elaunch.checkpoint.records.writing import write_file
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix

ENTRIES = {
    "model.weight": Entry("float32", (1024, 1024), "Shard(dim=0)"),
    "model.scale": Entry("bfloat16", ()),
    "lr.last_epoch": Entry(),
    "elaunch.shape.lr": Entry(),
    "elaunch.per_rank.0.rng.value": Entry(),
    "elaunch.per_rank.0.rng.tensors.0": Entry("uint8", (5056,)),
    "elaunch.per_rank.1.rng.value": Entry(),
    "elaunch.per_rank.1.rng.tensors.0": Entry("uint8", (5056,)),
}


def owner(job: str = "run7", generation: int = 3) -> Owner:
    return Owner(job, "i", generation, "gpu-01", os.getpid(), 0.0)


def claimed(root: Path, **who: object) -> Claim:
    """A claim of this process; release it to have a job that is gone."""
    return claim(Posix(root), owner(**who), 0)  # type: ignore[arg-type]


def add(root: Path, step: int, size: int = 5 << 20, number: int = 1, entries: Mapping[str, Entry] = ENTRIES) -> str:
    """A committed checkpoint of two ranks; its name."""
    storage = Posix(root)
    staging = storage.staging(step, 3, number)
    storage.make(staging)
    data = {layout.data_name(rank): os.urandom(size) for rank in range(2)} | {layout.METADATA: b"pickled"}
    files = {name: write_file(storage, f"{staging}/{name}", [memoryview(one)]) for name, one in data.items()}
    origin = Origin("run7", 3, 2, number, "gpu-01", time.time() - 90, "2.13.0", "0.1.0")
    mesh = {"shape": [2], "names": ["dp"]}
    written = manifest.encode(Manifest(step, 2, origin, files, entries, (mesh,)))
    return storage.publish(staging, layout.step_name(step, number if number > 1 else 0), written)


def flip(path: Path, at: int) -> None:
    """Change one bit."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
