"""Which checkpoints a person means: by step, by name, or the newest good one."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.directory import Directory
from elaunch.checkpoint.records.retention import newest_first
from elaunch.checkpoint.records.survey import survey
from elaunch.checkpoint.storages import layout
from elaunch.errors import NoCheckpointError, UsageError

_SHOWN = 10


def all_names(directory: Directory) -> list[str]:
    """Every committed checkpoint there. Raises NoCheckpointError where there is none."""
    names = [directory.single] if directory.single else Catalog(directory.storage).names()
    if not names:
        raise NoCheckpointError(f"{directory.storage.url}: holds no checkpoint")
    return names


def named(directory: Directory, wanted: str) -> list[str]:
    """The checkpoints of this step or name; several where runs have saved the same step.

    Raises NoCheckpointError, and UsageError for what is neither.
    """
    names = all_names(directory)
    if wanted in names:
        return [wanted]
    step = int(wanted) if wanted.isascii() and wanted.isdecimal() else layout.step_of(wanted)
    if step is None:
        raise UsageError(f"{wanted!r} is neither a step nor the name of a checkpoint; elaunch ckpt ls shows both")
    found = [name for name in names if layout.step_of(name) == step and wanted.isdecimal()]
    if not found:
        raise NoCheckpointError(f"{directory.storage.url}: no checkpoint {wanted}; there are: {_listed(names)}")
    return found


def one(directory: Directory, wanted: str) -> str:
    """One checkpoint: the latest of this step, or, where nothing is wanted in particular, the newest good one."""
    if wanted:
        names = named(directory, wanted)
        if len(names) == 1:
            return names[0]
        known = newest_first(Catalog(directory.storage).committed())
        return next((one.name for one in known if one.name in names), names[-1])
    if directory.single:
        return directory.single
    all_names(directory)
    seen = survey(directory.storage).seen
    newest = next((one.name for one in seen if one.newest), None)
    if newest is None:
        why = "; ".join(f"{one.name}: {one.reason}" for one in seen if layout.step_of(one.name) is not None)
        raise NoCheckpointError(f"{directory.storage.url}: holds no good checkpoint ({why})")
    return newest


def _listed(names: Sequence[str]) -> str:
    shown = [
        str(layout.step_of(name)) if name == layout.step_name(layout.step_of(name) or 0) else name for name in names
    ]
    return ", ".join(shown) if len(shown) <= _SHOWN else f"{', '.join(shown[: _SHOWN // 2])}, ..., {shown[-1]}"
