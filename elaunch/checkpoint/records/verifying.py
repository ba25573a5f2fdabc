"""Read all of a checkpoint, and say everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elaunch.checkpoint.records.blocks import BlockFile
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import DamagedCheckpointError


@dataclass(frozen=True, slots=True)
class Verdict:
    """``damages`` has a sentence for each file that is not what was saved; empty for a good checkpoint."""

    name: str
    files: int
    size: int
    damages: tuple[str, ...]


def bytes_to_read(storage: Storage, name: str) -> int:
    """How many bytes verify() will read; 0 where the manifest does not tell. Raises OSError."""
    try:
        return Catalog(storage).manifest(name).size
    except DamagedCheckpointError:
        return 0


def verify(storage: Storage, name: str, progress: Callable[[int], None]) -> Verdict | None:
    """Check every sum; ``progress`` is told how many bytes were read. Retention leaves it alone meanwhile.

    None where it is gone by now. Raises OSError where it cannot be read: whether it is damaged is not known then.
    """
    try:
        hold = storage.reading(f"{name}/{layout.MANIFEST}")
    except FileNotFoundError:
        return Verdict(name, 0, 0, (f"{name}: has no {layout.MANIFEST}",)) if storage.names(name) else None
    try:
        known = Catalog(storage).manifest(name)
        damages = [why for file, told in known.files.items() for why in _file(storage, name, file, told, progress)]
        return Verdict(name, len(known.files), known.size, tuple(damages))
    except DamagedCheckpointError as error:
        return Verdict(name, 0, 0, (str(error),))
    finally:
        hold.release()


def _file(storage: Storage, name: str, file: str, told: FileSum, progress: Callable[[int], None]) -> list[str]:
    where = f"{name}/{file}"
    try:
        source = storage.source(where)
    except FileNotFoundError:
        return [f"{where}: is missing"]
    try:
        BlockFile(source, where, told, verify=True).verify(progress)
    except DamagedCheckpointError as error:
        return [str(error)]
    finally:
        source.close()
    return []
