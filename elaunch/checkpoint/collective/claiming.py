"""The claim of a directory when a program begins to write there."""

from __future__ import annotations

from elaunch.checkpoint.collective.launcher import Launcher
from elaunch.checkpoint.records.claims import Claim, Owner, claim
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError

_PATIENCE = 5.0  # seconds for another program that is just ending


def claimed(storage: Storage, owner: Owner, launcher: Launcher) -> Claim:
    """Claim the directory; what keeps it from that is told. Raises as ``claim``, and CheckpointError."""
    try:
        _check_path(storage)
        return claim(storage, owner, _PATIENCE)
    except (CheckpointError, OSError) as error:
        launcher.tell("checkpoint_refused", describe(error))
        raise


def _check_path(storage: Storage) -> None:
    """Raises CheckpointError where the directory is one checkpoint: others in it would never be found."""
    try:
        storage.size(layout.METADATA)
    except OSError:
        return
    raise CheckpointError(f"{storage.url} is one checkpoint; give the directory above it, or read this one with load()")
