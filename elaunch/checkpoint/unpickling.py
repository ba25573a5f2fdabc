"""Read DCP's ``.metadata``, which is a pickle, without running what it may hold.

Only the classes that DCP itself writes there can be named; everything else is refused before it is made. What comes out
is checked, so that no size in it exceeds what the files hold.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem, metadata

from elaunch.checkpoint import layout
from elaunch.errors import DamagedCheckpointError

MOST_BYTES = 1 << 30

_OF_METADATA = (
    "Metadata",
    "TensorStorageMetadata",
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "TensorProperties",
    "MetadataIndex",
    "StorageMeta",
    "_MEM_FORMAT_ENCODING",
)


def _allowed() -> dict[tuple[str, str], object]:
    names: dict[tuple[str, str], object] = {
        (metadata.__name__, name): getattr(metadata, name) for name in _OF_METADATA if hasattr(metadata, name)
    }
    names[filesystem.__name__, "_StorageInfo"] = filesystem._StorageInfo
    names["torch", "Size"] = torch.Size
    names["torch.serialization", "_get_layout"] = torch.serialization._get_layout
    names["collections", "OrderedDict"] = dict
    for module in ("pathlib", "pathlib._local"):
        for kind in ("PosixPath", "PurePosixPath", "Path"):
            names[module, kind] = _path
    for name, value in vars(torch).items():
        if isinstance(value, torch.dtype):
            names["torch", name] = value
    return names


def _path(*parts: str) -> str:
    return "/".join(parts)


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint's metadata") from None


_ALLOWED = _allowed()


def load_metadata(data: bytes, where: str) -> metadata.Metadata:
    """DCP's metadata. Raises DamagedCheckpointError, with the reason, for whatever is not one, hostile or damaged."""
    try:
        loaded = _Restricted(io.BytesIO(data)).load()
    except Exception as error:
        raise DamagedCheckpointError(f"{where}: cannot be read ({_line(error)})") from error
    if not isinstance(loaded, metadata.Metadata):
        raise DamagedCheckpointError(f"{where}: holds a {type(loaded).__name__}, no metadata of a checkpoint")
    return loaded


def check_metadata(loaded: metadata.Metadata, sizes: Mapping[str, int], where: str) -> None:
    """Raises DamagedCheckpointError where it names what its files, of these ``sizes`` in bytes, cannot hold."""
    try:
        _check(loaded, sizes)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise DamagedCheckpointError(f"{where}: does not hold together ({_line(error)})") from error


def _check(loaded: metadata.Metadata, sizes: Mapping[str, int]) -> None:
    for position, info in _typed(loaded.storage_data, dict).items():
        name, offset, length = info.relative_path, _count(info.offset), _count(info.length)
        if not layout.is_plain(name) or name not in sizes:
            raise ValueError(f"{position.fqn!r} is said to be in {name!r}, which is not there")
        if offset + length > sizes[name]:
            raise ValueError(f"{position.fqn!r} ends at byte {offset + length} of {name}, which has {sizes[name]}")
    for key, value in _typed(loaded.state_dict_metadata, dict).items():
        if isinstance(value, metadata.TensorStorageMetadata):
            _check_tensor(key, value, loaded.storage_data)
        elif not isinstance(value, metadata.BytesStorageMetadata):
            raise ValueError(f"{key!r} is a {type(value).__name__}")
        elif metadata.MetadataIndex(key) not in loaded.storage_data:
            raise ValueError(f"{key!r} is in no file")


def _check_tensor(key: str, value: metadata.TensorStorageMetadata, stored: Mapping[Any, Any]) -> None:
    width = _typed(value.properties.dtype, torch.dtype).itemsize
    held = 0
    for chunk in value.chunks:
        dimensions = list(zip(chunk.offsets, chunk.sizes, value.size, strict=True))
        if any(_count(offset) + _count(size) > _count(whole) for offset, size, whole in dimensions):
            raise ValueError(f"a part of {key!r} reaches beyond its shape {tuple(value.size)}")
        elements = torch.Size(chunk.sizes).numel()
        if elements * width > stored[metadata.MetadataIndex(key, chunk.offsets)].length:
            raise ValueError(f"{key!r} has {elements} elements in an item that is too small for them")
        held += elements
    if held < torch.Size(value.size).numel():
        raise ValueError(f"{key!r} of shape {tuple(value.size)}: {held} elements are there")


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
