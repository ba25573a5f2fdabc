"""One plain file out of a checkpoint, for torch.load or safetensors, in memory that does not grow with either."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torch.distributed.checkpoint.metadata import Metadata

from elaunch.checkpoint.collective.loading import read_metadata
from elaunch.checkpoint.encoding import stock, unpickling
from elaunch.checkpoint.encoding.shards import Shards
from elaunch.checkpoint.exporting import safetensors_file
from elaunch.checkpoint.exporting.exported import keys_of, states
from elaunch.checkpoint.exporting.output_file import output_file
from elaunch.checkpoint.exporting.torch_file import Placeholders, write_skeleton
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.manifest import Manifest
from elaunch.checkpoint.state.saved import Saved, saved_keys
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import DamagedCheckpointError, NoCheckpointError

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Exported:
    """``size`` is that of the file, in bytes; ``left_out`` are keys that its format has no place for."""

    size: int
    tensors: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Export:
    """One checkpoint that is open to be exported. ``known`` is None where it has no manifest."""

    storage: Storage
    name: str
    known: Manifest | None
    metadata: Metadata
    saved: Mapping[str, Saved]

    def size(self, only: str = "") -> int:
        """Bytes of all tensors that will be read."""
        chosen = (one for one in self.saved.values() if only in ("", str(one.path[0])))
        return sum(_bytes(one) for one in chosen if one.is_tensor)

    def write(self, out: Path, only: str, force: bool, progress: Progress) -> Exported:
        """Write the file, as its name says: ``.safetensors``, or what torch.load reads.

        ``progress`` is told how many bytes were read. Retention leaves the checkpoint alone meanwhile.

        Raises DamagedCheckpointError, CheckpointRefusedError, NoCheckpointError, UsageError and OSError: then there is
        no file.
        """
        hold = self.storage.reading(f"{self.name}/{layout.METADATA}" if self.known is None else _manifest(self.name))
        shards = Shards(self.storage, self.name, self.metadata, None if self.known is None else self.known.files)
        try:
            with output_file(out, force) as file:
                write = self._safetensors if out.suffix == ".safetensors" else self._torch
                return write(file, shards, only, progress)
        finally:
            shards.close()
            hold.release()

    def _torch(self, file: BinaryIO, shards: Shards, only: str, progress: Progress) -> Exported:
        places = Placeholders(self.size(), len(self.saved))

        def leaf(key: str, one: Saved) -> object:
            if one.size is None or one.dtype is None:
                return shards.value(key)
            return places.make(key, one.dtype, one.size)

        tree = states(self.saved, leaf, only)
        order = places.order(tree)
        holes = write_skeleton(tree, file)
        if len(order) != len(holes):
            raise RuntimeError(f"torch.save wrote {len(holes)} tensors, {len(order)} were given to it")
        for key, hole in zip(order, holes, strict=True):
            if key:
                hole.fill(file, _counted(shards.pieces(key), progress))
        return Exported(file.seek(0, 2), len(order), ())

    def _safetensors(self, file: BinaryIO, shards: Shards, only: str, progress: Progress) -> Exported:
        names = keys_of(self.saved, only)
        if not names:
            raise NoCheckpointError(f"{self.name}: holds no tensors" + (f" of a state {only!r}" if only else ""))
        by_name = {name: key for key, name in names.items()}
        if len(by_name) < len(names):
            raise DamagedCheckpointError(f"{self.name}: two tensors have one name")
        plan = safetensors_file.plan({name: self._told(key) for name, key in by_name.items()}, self._facts())
        file.write(plan.header)
        for name in plan.order:
            for piece in _counted(shards.pieces(by_name[name]), progress):
                file.write(piece)
        others = (key for key, one in self.saved.items() if key not in names and only in ("", str(one.path[0])))
        return Exported(file.tell(), len(names), tuple(key for key in others if not key.startswith("elaunch.shape.")))

    def _told(self, key: str) -> tuple[str, tuple[int, ...], int]:
        one = self.saved[key]
        return str(one.dtype).removeprefix("torch."), one.size or (), _bytes(one)

    def _facts(self) -> dict[str, str]:
        step = {} if self.known is None else {"step": str(self.known.step)}
        return {"format": "pt", "checkpoint": self.name, **step}


def open_export(storage: Storage, name: str, is_stock: bool) -> Export:
    """Read what a checkpoint says of itself. Raises DamagedCheckpointError and OSError."""
    if is_stock:
        metadata = stock.read_metadata(storage, name)
        return Export(storage, name, None, metadata, saved_keys(metadata))
    known = Catalog(storage).manifest(name)
    Catalog(storage).check_sizes(name, known)
    metadata = read_metadata(storage.read(f"{name}/{layout.METADATA}", unpickling.MOST_BYTES), known, name)
    return Export(storage, name, known, metadata, saved_keys(metadata))


def _bytes(one: Saved) -> int:
    return math.prod(one.size or ()) * (one.dtype.itemsize if one.dtype is not None else 0)


def _manifest(name: str) -> str:
    return f"{name}/{layout.MANIFEST}"


def _counted(pieces: Iterator[memoryview], progress: Progress) -> Iterator[memoryview]:
    for piece in pieces:
        yield piece
        progress(len(piece))
