"""Read DCP's ``.metadata``, which is a pickle, without running what it may hold.

Whatever it says is taken apart and put together anew: only the attributes that are known, only of the types that they
must have. So the objects of other versions of torch are read too, with more attributes or with less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

from elaunch.checkpoint.encoding.pickles import Call, Kind, Machine, Record
from elaunch.checkpoint.storages.failures import line
from elaunch.errors import DamagedCheckpointError

MOST_BYTES = 1 << 30
_MOST_DIMENSIONS = 64  # torch computes with no more
_LONGEST_PATH = 200
_LARGEST = (1 << 63) - 1

_HAS_VERSION = "version" in Metadata.__dataclass_fields__  # not in torch 2.6

_KINDS = (
    "Metadata",
    "TensorStorageMetadata",
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "TensorProperties",
    "MetadataIndex",
    "StorageMeta",
)
_MODULES = (
    "torch.distributed.checkpoint.metadata",
    "torch.distributed._shard.checkpoint.metadata",  # of old
    "torch.distributed._shard.sharded_tensor.metadata",  # where TensorProperties came from before torch 2.3
)


def load_metadata(data: bytes, where: str) -> Metadata:
    """DCP's metadata. Raises DamagedCheckpointError, with the reason, for whatever is not one, hostile or damaged."""
    try:
        return _metadata(Machine(data, _NAMES).load())
    except Exception as error:
        raise DamagedCheckpointError(f"{where}: cannot be read ({line(error)})") from error


def _metadata(record: Any) -> Metadata:
    _of_kind(record, "Metadata")
    stored = {_index(key): _place(value) for key, value in _typed(record.get("storage_data"), dict).items()}
    entries = _typed(record.get("state_dict_metadata"), dict)
    parts = sum(len(_chunks(value)) for value in entries.values())
    if parts > len(stored):
        raise ValueError(f"names {parts} parts of tensors, and the places of {len(stored)}")
    version = {"version": _optional(record.get("version"), str)} if _HAS_VERSION else {}
    return Metadata(
        state_dict_metadata={_typed(key, str): _entry(value) for key, value in entries.items()},
        planner_data=_paths(record.get("planner_data")),
        storage_data=stored,
        **version,
    )


def _index(record: Any) -> MetadataIndex:
    _of_kind(record, "MetadataIndex")
    offset = record.get("offset")
    return MetadataIndex(
        _typed(record.get("fqn"), str),
        None if offset is None else _size(offset),
        _optional(record.get("index"), int),
    )


def _place(record: Any) -> filesystem._StorageInfo:
    _of_kind(record, "_StorageInfo")
    if record.get("transform_descriptors"):
        raise ValueError(f"data that was transformed ({record.get('transform_descriptors')!r:.100}), which is not read")
    name = _typed(record.get("relative_path"), str)
    return filesystem._StorageInfo(name, _count(record.get("offset")), _count(record.get("length")))


def _entry(record: Any) -> TensorStorageMetadata | BytesStorageMetadata:
    if type(record) is Record and record.kind == "BytesStorageMetadata":
        return BytesStorageMetadata()
    _of_kind(record, "TensorStorageMetadata")
    return TensorStorageMetadata(
        properties=_properties(record.get("properties")),
        size=_size(record.get("size")),
        chunks=[_chunk(chunk) for chunk in _chunks(record)],
    )


def _chunks(record: Any) -> list[Any]:
    if type(record) is not Record or record.kind != "TensorStorageMetadata":
        return []
    chunks: list[Any] = _typed(record.get("chunks"), list)
    return chunks


def _chunk(record: Any) -> ChunkStorageMetadata:
    _of_kind(record, "ChunkStorageMetadata")
    return ChunkStorageMetadata(_size(record.get("offsets")), _size(record.get("sizes")))


def _properties(record: Any) -> TensorProperties:
    """Only the type is of use; it comes first, or by its name."""
    _of_kind(record, "TensorProperties")
    state = record.state
    dtype = state[0] if isinstance(state, tuple | list) and state else record.get("dtype")
    return TensorProperties(dtype=_typed(dtype, torch.dtype))


def _paths(raw: Any) -> dict[str, tuple[str | int, ...]] | None:
    """Where the values stood in the state; None where another planner has written something else."""
    if not isinstance(raw, dict):
        return None
    return {_typed(key, str): tuple(_steps(path)) for key, path in raw.items()}


def _steps(path: Any) -> Iterator[str | int]:
    if not isinstance(path, tuple | list) or not 0 < len(path) <= _LONGEST_PATH:
        raise ValueError("a path that is none")
    for step in path:
        if type(step) not in (str, int):
            raise TypeError(f"a {type(step).__name__} in a path")
        yield step


def _size(raw: Any = ()) -> torch.Size:
    if not isinstance(raw, tuple | list) or len(raw) > _MOST_DIMENSIONS:
        raise ValueError(f"a {type(raw).__name__} that is no size")
    return torch.Size([_count(one) for one in raw])


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r:.50} is no size")
    return value


def _of_kind(record: Any, kind: str) -> None:
    if type(record) is not Record or record.kind != kind:
        found = record.kind if type(record) is Record else type(record).__name__
        raise TypeError(f"{found} in place of {kind}")


def _optional(value: Any, kind: type) -> Any:
    return value if type(value) is kind else None


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def _nothing(*_: Any) -> None:
    """What is of no use here: memory formats, layouts, the path of the directory."""


def dtypes() -> dict[tuple[str, str], Any]:
    """Every type of elements, by how a pickle names it."""
    return {("torch", name): value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}


def _names() -> Mapping[tuple[str, str], Any]:
    names: dict[tuple[str, str], Any] = dtypes()
    names |= {(module, kind): Kind(kind) for module in _MODULES for kind in _KINDS}
    for name in ("_MEM_FORMAT_ENCODING", "MEM_FORMAT_ENCODING"):
        names |= {(module, name): Call(_nothing) for module in _MODULES}
    names[filesystem.__name__, "_StorageInfo"] = Kind("_StorageInfo")
    names["torch", "Size"] = Call(_size)
    names["torch.serialization", "_get_layout"] = Call(_nothing)
    names["collections", "OrderedDict"] = Call(dict)
    for module in ("pathlib", "pathlib._local"):
        names |= {(module, kind): Call(_nothing) for kind in ("PosixPath", "PurePosixPath", "Path")}
    return names


_NAMES = _names()
