"""Who has claimed a directory, for whoever only looks: nothing is claimed, nobody is waited for."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.checkpoint.records.claims import Owner, owner_of
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage

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
        try:
            owner = owner_of(storage, newest)
        except FileNotFoundError:
            continue  # a newer one has taken its place
        try:
            held = storage.held(f"{layout.CLAIMS}/{layout.claim_name(newest)}")
            return Claimant(newest, owner, held)
        except PermissionError:
            return Claimant(newest, owner, None)
    return None
