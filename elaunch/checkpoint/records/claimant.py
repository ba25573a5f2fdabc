"""Who has claimed a directory, for whoever only looks: nothing is claimed, nobody is waited for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from elaunch.checkpoint.records import documents
from elaunch.checkpoint.records.claims import Owner
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError

_MOST_BYTES = 1 << 16
_LOOKS = 100


@dataclass(frozen=True, slots=True)
class Claimant:
    """The newest claim and its owner. ``lives`` is None where this user may not find out."""

    number: int
    owner: Owner
    lives: bool | None


def claimant(storage: Storage) -> Claimant | None:
    """The newest claim; None where there is none. Raises CheckpointError where it cannot be read, and OSError."""
    for _ in range(_LOOKS):
        newest = max((layout.claim_of(name) or 0 for name in storage.names(layout.CLAIMS)), default=0)
        if not newest:
            return None
        path = f"{layout.CLAIMS}/{layout.claim_name(newest)}"
        try:
            owner = _owner(storage, path)
        except FileNotFoundError:
            continue  # a newer one has taken its place
        try:
            return Claimant(newest, owner, storage.held(path))
        except PermissionError:
            return Claimant(newest, owner, None)
    return None


def _owner(storage: Storage, path: str) -> Owner:
    try:
        raw: dict[str, Any] = documents.parse(storage.read(path, _MOST_BYTES))
        return Owner(**{field.name: raw[field.name] for field in fields(Owner)})
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{storage.url}/{path}: is no claim ({error!r})") from error
