"""Checkpoints that torch.distributed.checkpoint itself wrote: no manifest, only its own metadata."""

from __future__ import annotations

from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from elaunch.checkpoint.encoding import unpickling
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.records.manifest import Entry
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage


def read_metadata(storage: Storage, name: str) -> Metadata:
    """The metadata, checked against the sizes of the files. Raises DamagedCheckpointError and OSError."""
    where = f"{name}/{layout.METADATA}"
    loaded = unpickling.load_metadata(storage.read(where, unpickling.MOST_BYTES), where)
    sizes = {file: storage.size(f"{name}/{file}") for file in storage.names(name) if layout.is_plain(file)}
    check_metadata(loaded, sizes, where)
    return loaded


def entries(storage: Storage, name: str) -> dict[str, Entry]:
    """What it holds, as a manifest would tell it; placements are not known."""
    return {key: _entry(value) for key, value in read_metadata(storage, name).state_dict_metadata.items()}


def _entry(value: object) -> Entry:
    if not isinstance(value, TensorStorageMetadata):
        return Entry()
    return Entry(str(value.properties.dtype).removeprefix("torch."), tuple(value.size))
