"""What a person means by DIR: the directory of a run, or one checkpoint by itself."""

from __future__ import annotations

import os
from dataclasses import dataclass

from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.open_storage import open_storage, parent_of
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import NoCheckpointError

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Directory:
    """``single`` is the name of the checkpoint that was meant, in ``storage``; empty for the directory of a run."""

    storage: Storage
    single: str = ""


def open_directory(url: str | os.PathLike[str]) -> Directory:
    """Look what stands there. Raises NoCheckpointError, UsageError and OSError."""
    storage = open_storage(url)
    try:
        names = storage.names("")
        if not names:
            storage.size(".")
    except FileNotFoundError:
        raise NoCheckpointError(f"{storage.url}: no such directory") from None
    except NotADirectoryError:
        raise NoCheckpointError(
            f"{storage.url}: is no directory; expected the one that a Checkpointer writes to"
        ) from None
    above, name = parent_of(url)
    data = any(one.endswith(".distcp") for one in names)
    if layout.METADATA in names or data or (layout.step_of(name) is not None and layout.PRIVATE not in names):
        return Directory(open_storage(above), name)
    if names and layout.PRIVATE not in names and not any(layout.step_of(one) is not None for one in names):
        raise NoCheckpointError(f"{storage.url}: holds no checkpoints, but {_listed(names)}")
    return Directory(storage)


def is_run(storage: Storage) -> bool:
    """Whether a Checkpointer writes here, or did."""
    return layout.PRIVATE in storage.names("")


def is_stock(storage: Storage, name: str) -> bool:
    """Whether torch.distributed.checkpoint itself wrote this one, somewhere: it has no manifest."""
    present = storage.names(name)
    return layout.METADATA in present and layout.MANIFEST not in present and not is_run(storage)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
