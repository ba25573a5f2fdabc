"""Whether DCP's metadata fits the files that stand beside it: no size in it may exceed what they hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata

from elaunch.checkpoint.storages import layout
from elaunch.errors import DamagedCheckpointError


def check_metadata(loaded: Metadata, sizes: Mapping[str, int], where: str) -> None:
    """Raises DamagedCheckpointError where it names what its files, of these ``sizes`` in bytes, cannot hold."""
    try:
        _check(loaded, sizes)
    except (ValueError, KeyError) as error:
        raise DamagedCheckpointError(f"{where}: does not hold together ({error})") from error


def _check(loaded: Metadata, sizes: Mapping[str, int]) -> None:
    held: Counter[str] = Counter()
    for index, info in loaded.storage_data.items():
        name = info.relative_path
        if not layout.is_plain(name) or name not in sizes:
            raise ValueError(f"{index.fqn!r} is said to be in {name[:200]!r}, which is not there")
        if info.offset + info.length > sizes[name]:
            raise ValueError(
                f"{index.fqn!r} ends at byte {info.offset + info.length} of {name}, which has {sizes[name]}"
            )
        held[name] += info.length
    for name, length in held.items():
        if length > sizes[name]:
            raise ValueError(f"{name} of {sizes[name]} bytes is said to hold {length}")
    for key, value in loaded.state_dict_metadata.items():
        if isinstance(value, TensorStorageMetadata):
            _check_tensor(key, value, loaded.storage_data)
        elif isinstance(value, BytesStorageMetadata) and MetadataIndex(key) not in loaded.storage_data:
            raise ValueError(f"{key!r} is in no file")


def _check_tensor(key: str, value: TensorStorageMetadata, stored: Mapping[Any, Any]) -> None:
    width = value.properties.dtype.itemsize
    held = 0
    for chunk in value.chunks:
        dimensions = list(zip(chunk.offsets, chunk.sizes, value.size, strict=True))
        if any(offset + size > whole for offset, size, whole in dimensions):
            raise ValueError(f"a part of {key!r} reaches beyond its shape {tuple(value.size)}")
        place = stored.get(MetadataIndex(key, chunk.offsets))
        if place is None:
            raise ValueError(f"the part of {key!r} at {tuple(chunk.offsets)} is in no file")
        elements = math.prod(chunk.sizes)
        if elements * width > place.length:
            raise ValueError(f"{key!r} has {elements} elements in an item that is too small for them")
        held += elements
    if held < math.prod(value.size):
        raise ValueError(f"{key!r} of shape {tuple(value.size)}: {held} elements are there")
