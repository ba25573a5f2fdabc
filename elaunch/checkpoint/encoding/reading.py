"""DCP's storage reader for what elaunch writes: only the bytes that are wanted, each block checked on the way.

Stock DCP loads a whole item through torch.load to take a slice of it. Here the slice is read straight into the tensor
that wants it; where it is not one run of bytes, through a small buffer (slicing.py). Checkpoints of other writers are
read item by item.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint import LoadPlan, LoadPlanner, Metadata, StorageReader
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem
from torch.futures import Future

from elaunch.checkpoint.encoding.archive import load_value
from elaunch.checkpoint.encoding.slicing import Stored
from elaunch.checkpoint.records import index
from elaunch.checkpoint.records.blocks import BlockFile
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import DamagedCheckpointError


class BlockReader(StorageReader):  # type: ignore[misc]
    """Reads the checkpoint ``name`` of a directory, whose metadata was read and checked before.

    ``files`` are the sums of its manifest, None for a checkpoint that another writer wrote. ``advance`` is told after
    each item how many bytes are read, and of how many.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        metadata: Metadata,
        files: Mapping[str, FileSum] | None,
        verify: bool,
        advance: Callable[[int, int], None] = lambda done, whole: None,
    ) -> None:
        self._storage = storage
        self._name = name
        self._metadata = metadata
        self._files = files
        self._verify = verify
        self._advance = advance
        self._open: dict[str, BlockFile] = {}
        self._indexes: dict[str, dict[int, int]] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing is kept between loads."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return self._metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing to set up."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Carry out a load plan. Raises DamagedCheckpointError and OSError."""
        by_file: dict[str, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            by_file[self._metadata.storage_data[item.storage_index].relative_path].append(item)
        done, whole = 0, sum(map(self._size, plan.items))
        try:
            for name in sorted(by_file):
                for item in sorted(by_file[name], key=self._order):
                    self._read(name, item, planner)
                    done += self._size(item)
                    self._advance(done, whole)
        finally:
            self.close()
        through: Future[None] = Future()
        through.set_result(None)
        return through

    def file(self, name: str) -> BlockFile:
        """A file of the checkpoint, opened once."""
        if name not in self._open:
            known = self._files[name] if self._files is not None else None
            source = self._storage.source(f"{self._name}/{name}")
            self._open[name] = BlockFile(source, f"{self._name}/{name}", known, self._verify)
        return self._open[name]

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return False  # never chosen by its path alone

    def _order(self, item: ReadItem) -> tuple[int, tuple[int, ...]]:
        return self._metadata.storage_data[item.storage_index].offset, tuple(item.storage_offsets)

    def _size(self, item: ReadItem) -> int:
        """Bytes that are wanted of it."""
        if item.type == LoadItemType.BYTE_IO:
            return int(self._metadata.storage_data[item.storage_index].length)
        dtype = self._metadata.state_dict_metadata[item.storage_index.fqn].properties.dtype
        return int(math.prod(item.lengths) * dtype.itemsize)

    def _read(self, name: str, item: ReadItem, planner: LoadPlanner) -> None:
        info = self._metadata.storage_data[item.storage_index]
        file = self.file(name)
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(file.read(info.offset, info.length, surely=True)))
            return
        target = planner.resolve_tensor(item)
        with torch.no_grad():
            if self._files is None:
                self._read_foreign(file, info, item, target)
            else:
                self._read_slice(file, info, item, target.detach())
        planner.commit_tensor(item, target)

    def _read_foreign(self, file: BlockFile, info: Any, item: ReadItem, target: torch.Tensor) -> None:
        where = f"{self._name}/{info.relative_path}: {item.storage_index.fqn}"
        stored = load_value(file.read(info.offset, info.length), where)
        chunk = self._chunk(item)
        if not isinstance(stored, torch.Tensor) or tuple(stored.shape) != tuple(chunk.sizes):
            raise DamagedCheckpointError(f"{where}: holds no tensor of shape {tuple(chunk.sizes)}")
        for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            stored = stored.narrow(dimension, offset, length)
        target.detach().copy_(stored)

    def _read_slice(self, file: BlockFile, info: Any, item: ReadItem, target: torch.Tensor) -> None:
        dtype = self._metadata.state_dict_metadata[item.storage_index.fqn].properties.dtype
        shape = tuple(self._chunk(item).sizes)
        if math.prod(item.lengths):
            start = self._data_start(file, info, math.prod(shape) * dtype.itemsize)
            Stored(file, start, dtype, shape).read(tuple(item.storage_offsets), tuple(item.lengths), target)

    def _chunk(self, item: ReadItem) -> Any:
        chunks = self._metadata.state_dict_metadata[item.storage_index.fqn].chunks
        hint = item.storage_index.index
        if hint is not None and hint < len(chunks) and chunks[hint].offsets == item.storage_index.offset:
            return chunks[hint]
        return next(chunk for chunk in chunks if chunk.offsets == item.storage_index.offset)

    def _data_start(self, file: BlockFile, info: Any, size: int) -> int:
        """Where the ``size`` bytes of a tensor begin: within its item."""
        name = info.relative_path
        if name not in self._indexes:
            self._indexes[name] = index.read(file, f"{self._name}/{name}")
        start = self._indexes[name].get(info.offset, -1)
        if not info.offset <= start <= start + size <= info.offset + info.length:
            raise DamagedCheckpointError(f"{self._name}/{name}: no tensor of {size} bytes is at byte {info.offset}")
        return start
