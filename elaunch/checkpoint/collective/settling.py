"""After a save, on rank 0 and behind the training: it is told, and older checkpoints make room."""

from __future__ import annotations

from collections.abc import Callable

from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.collective.launcher import Launcher
from elaunch.checkpoint.records import attempts
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claims import Claim
from elaunch.checkpoint.records.retention import Keep, to_remove
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError


def settle(outcome: Outcome, storage: Storage, launcher: Launcher, room: Callable[[], None]) -> None:
    """Tell what became of a save; where it was committed, make ``room`` for those that follow."""
    if not outcome.committed:
        launcher.tell("checkpoint_failed", f"step {outcome.step} was not saved: {outcome.error}")
        return
    launcher.committed(outcome, f"{storage.url}/{outcome.name}")
    try:
        room()
    except (OSError, CheckpointError) as error:
        launcher.tell("checkpoint_retention", f"older checkpoints were not removed: {describe(error)}")
    try:
        attempts.over(storage)
    except OSError as error:
        launcher.tell("checkpoint_attempt", f"starts are not counted anew: {describe(error)}")


def make_room(storage: Storage, claim: Claim, keep: Keep, restored: str) -> None:
    """Remove the checkpoints that are not to be kept; never ``restored``, which this run went on from.

    Raises OSError, and as ``Claim.check``.
    """
    catalog = Catalog(storage)
    gone = to_remove(catalog.readable(), keep, frozenset(catalog.marks()), frozenset({restored}))
    retired = claim.retired() if gone else ""
    for one in gone:
        storage.retire(one.name, retired)


def count_attempt(storage: Storage, launcher: Launcher, step: int) -> None:
    """Note that a start goes on from this step: where many do, and none gets further, another is taken."""
    try:
        attempts.begun(storage, step)
    except OSError as error:
        launcher.tell("checkpoint_attempt", f"the start from step {step} is not counted: {describe(error)}")
