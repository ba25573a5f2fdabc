"""Checkpoints of many ranks, made by one process: each rank's file is written as elaunch.checkpoint writes it."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

from elaunch.checkpoint.encoding.image import Image
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.manifest import Entry, Manifest, Origin
from elaunch.checkpoint.records.writing import write_file
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix

Chunk = tuple[Sequence[int], Sequence[int]]  # offsets, lengths
Sharded = Mapping[str, tuple[torch.Tensor, Sequence[Chunk]]]


def rows(tensor: torch.Tensor, ranks: int) -> list[Chunk]:
    """Cut as FSDP2 does: the first dimension, the last ranks may have fewer or none."""
    whole = tensor.shape[0]
    step = -(-whole // ranks)
    rest = [0] * (tensor.dim() - 1)
    starts = [min(rank * step, whole) for rank in range(ranks)]
    return [((at, *rest), (min(step, whole - at), *tensor.shape[1:])) for at in starts]


class _Planner:
    def __init__(self, tensors: Sharded, values: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self._values = values

    def resolve_data(self, item: WriteItem) -> Any:
        if item.type == WriteItemType.BYTE_IO:
            file = io.BytesIO()
            torch.save(self._values[item.index.fqn], file)
            return file
        chunk = item.tensor_data.chunk
        return _cut(self._tensors[item.index.fqn][0], chunk.offsets, chunk.sizes)


def write(root: Path, step: int, tensors: Sharded, values: Mapping[str, Any] | None = None) -> str:
    """Commit a checkpoint: chunk N of each tensor is rank N's, values are rank 0's. Its name."""
    values = values or {}
    storage = Posix(root)
    staging = storage.staging(step, 0, 1)
    storage.make(staging)
    stored, files = {}, {}
    world = max((len(chunks) for _, chunks in tensors.values()), default=1)
    for rank in range(world):
        items = [_item(key, tensor, chunks[rank]) for key, (tensor, chunks) in tensors.items() if rank < len(chunks)]
        if rank == 0:
            items += [WriteItem(MetadataIndex(key), WriteItemType.BYTE_IO) for key in values]
        image = Image(SavePlan(items))
        image.fill(_Planner(tensors, values))  # type: ignore[arg-type]
        name = layout.data_name(rank)
        files[name] = write_file(storage, f"{staging}/{name}", image.parts())
        for one in image.written:
            stored[one.index] = filesystem._StorageInfo(name, one.offset, one.length)
    told: dict[str, Any] = {key: _told(tensor, chunks) for key, (tensor, chunks) in tensors.items()}
    told |= dict.fromkeys(values, BytesStorageMetadata())
    paths = {key: tuple(key.split(".")) for key in told}
    data = pickle.dumps(Metadata(told, planner_data=paths, storage_data=stored))
    files[layout.METADATA] = write_file(storage, f"{staging}/{layout.METADATA}", [memoryview(data)])
    entries = {key: Entry(str(tensor.dtype)[6:], tuple(tensor.shape)) for key, (tensor, _) in tensors.items()}
    known = Manifest(step, world, Origin(claim=1, saved_at=time.time()), files, entries)
    return storage.publish(staging, layout.step_name(step), manifest.encode(known))


def _item(key: str, tensor: torch.Tensor, chunk: Chunk) -> WriteItem:
    offsets, lengths = map(torch.Size, chunk)
    data = TensorWriteData(ChunkStorageMetadata(offsets, lengths), TensorProperties(tensor.dtype), tensor.shape)
    return WriteItem(MetadataIndex(key, offsets), WriteItemType.SHARD, tensor_data=data)


def _told(tensor: torch.Tensor, chunks: Sequence[Chunk]) -> TensorStorageMetadata:
    parts = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(lengths)) for offsets, lengths in chunks]
    return TensorStorageMetadata(TensorProperties(tensor.dtype), tensor.shape, parts)


def _cut(tensor: torch.Tensor, offsets: Sequence[int], lengths: Sequence[int]) -> torch.Tensor:
    for dimension, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        tensor = tensor.narrow(dimension, offset, length)
    return tensor
