"""Whole tensors out of their shards, a piece at a time: no more than a piece of one is in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex

from elaunch.checkpoint.encoding.archive import load_value
from elaunch.checkpoint.encoding.raw import bytes_of
from elaunch.checkpoint.encoding.slicing import Stored
from elaunch.checkpoint.records import index
from elaunch.checkpoint.records.blocks import BlockFile
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import DamagedCheckpointError

PIECE = 8 << 20  # bytes
_MOST_OPEN = 64  # files, each with a block of 4 MiB

Places = tuple[int, ...]


class Shards:
    """The checkpoint ``name``, whose metadata was read and checked; every sum is checked on the way.

    ``files`` are the sums of its manifest, None where there is none: then a tensor is in memory as a whole, for the
    files of other writers are read item by item. ``close()`` closes the files.
    """

    def __init__(self, storage: Storage, name: str, metadata: Metadata, files: Mapping[str, FileSum] | None) -> None:
        self._storage = storage
        self._name = name
        self._metadata = metadata
        self._files = files
        self._open: dict[str, BlockFile] = {}
        self._indexes: dict[str, dict[int, int]] = {}

    def value(self, key: str) -> Any:
        """What is no tensor. Raises DamagedCheckpointError and OSError."""
        info = self._metadata.storage_data[MetadataIndex(key)]
        return load_value(self._file(info.relative_path).read(info.offset, info.length), f"{self._name}: {key}")

    def pieces(self, key: str) -> Iterator[memoryview]:
        """The bytes of a tensor in the order of its elements, each piece until the next is asked for.

        Raises DamagedCheckpointError and OSError.
        """
        told = self._metadata.state_dict_metadata[key]
        dtype, size = told.properties.dtype, tuple(told.size)
        if not math.prod(size):
            return
        chunks = [self._chunk(key, dtype, chunk) for chunk in told.chunks]
        for offsets, lengths in cuts(size, dtype.itemsize):
            piece = torch.empty(lengths, dtype=dtype)
            missing = torch.ones(lengths, dtype=torch.bool)
            for chunk in chunks:
                chunk.copy(offsets, lengths, piece, missing)
            if bool(missing.any()):
                raise DamagedCheckpointError(f"{self._name}: parts of {key!r} are missing")
            yield bytes_of(piece)

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, name: str) -> BlockFile:
        file = self._open.pop(name, None)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            known = self._files[name] if self._files is not None else None
            source = self._storage.source(f"{self._name}/{name}")
            file = BlockFile(source, f"{self._name}/{name}", known, verify=True)
        self._open[name] = file  # the last one used stands last
        return file

    def _chunk(self, key: str, dtype: torch.dtype, chunk: Any) -> _Chunk:
        info = self._metadata.storage_data[MetadataIndex(key, chunk.offsets)]
        offsets, sizes = tuple(chunk.offsets), tuple(chunk.sizes)
        if self._files is None:
            where = f"{self._name}/{info.relative_path}: {key}"
            held = load_value(self._file(info.relative_path).read(info.offset, info.length), where)
            if not isinstance(held, torch.Tensor) or tuple(held.shape) != sizes or held.dtype != dtype:
                raise DamagedCheckpointError(f"{where}: holds no {dtype} tensor of shape {sizes}")
            return _Chunk(offsets, sizes, lambda at, lengths, target: target.copy_(_part(held, at, lengths)))
        start = self._start(info, math.prod(sizes) * dtype.itemsize)

        def read(at: Places, lengths: Places, target: torch.Tensor) -> None:
            Stored(self._file(info.relative_path), start, dtype, sizes).read(at, lengths, target)

        return _Chunk(offsets, sizes, read)

    def _start(self, info: Any, size: int) -> int:
        """Where the ``size`` bytes of a tensor begin: within its item."""
        name = info.relative_path
        if name not in self._indexes:
            self._indexes[name] = index.read(self._file(name), f"{self._name}/{name}")
        start = self._indexes[name].get(info.offset, -1)
        if not info.offset <= start <= start + size <= info.offset + info.length:
            raise DamagedCheckpointError(f"{self._name}/{name}: no tensor of {size} bytes is at byte {info.offset}")
        return start


class _Chunk:
    """A part of a tensor, as one rank wrote it. ``read`` fills a target from (place in the chunk, lengths)."""

    def __init__(self, offsets: Places, sizes: Places, read: Any) -> None:
        self._offsets = offsets
        self._sizes = sizes
        self._read = read

    def copy(self, offsets: Places, lengths: Places, piece: torch.Tensor, missing: torch.Tensor) -> None:
        """Fill what this chunk has of a piece of the whole, and say that it is not missing any more."""
        at, common = [], []
        for dimension, (mine, size, wanted, length) in enumerate(
            zip(self._offsets, self._sizes, offsets, lengths, strict=True)
        ):
            begin, end = max(mine, wanted), min(mine + size, wanted + length)
            if end <= begin:
                return
            at.append(begin - mine)
            common.append(end - begin)
            piece = piece.narrow(dimension, begin - wanted, end - begin)
            missing = missing.narrow(dimension, begin - wanted, end - begin)
        self._read(tuple(at), tuple(common), piece)
        missing.fill_(False)


def cuts(size: Sequence[int], width: int) -> Iterator[tuple[Places, Places]]:
    """(offsets, lengths) of consecutive parts of a tensor, each of ``PIECE`` bytes at most, one after the other."""
    size = tuple(size)
    row = math.prod(size[1:]) * width
    if not size or row * size[0] <= PIECE:
        yield (0,) * len(size), size
    elif row <= PIECE:
        step = PIECE // row
        for first in range(0, size[0], step):
            yield (first, *(0,) * (len(size) - 1)), (min(step, size[0] - first), *size[1:])
    else:
        for number in range(size[0]):
            for offsets, lengths in cuts(size[1:], width):
                yield (number, *offsets), (1, *lengths)


def _part(held: torch.Tensor, at: Places, lengths: Places) -> torch.Tensor:
    for dimension, (begin, length) in enumerate(zip(at, lengths, strict=True)):
        held = held.narrow(dimension, begin, length)
    return held
