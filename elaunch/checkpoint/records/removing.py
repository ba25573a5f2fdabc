"""Remove checkpoints by hand: never the last good one by accident, though two remove at once.

Who removes says first which ones, in a file of its own that ends with it, and *then* looks what others have said and
what would be left. So of two that would together take the last good ones away, at least one sees the other.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from elaunch.checkpoint.records import documents
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.survey import Survey, survey
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointRefusedError

_MOST_BYTES = 1 << 20
_IS_READ = "{}/{}: is being read now; try again when that is over"


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed: ``size`` in bytes, None where that was not known. ``gone`` is whether another was first."""

    name: str
    size: int | None
    gone: bool = False


def remove(storage: Storage, names: Sequence[str], force: bool) -> Iterator[Removed]:
    """Remove these, one after the other; each is told when it is gone.

    Raises CheckpointRefusedError before anything is removed, and OSError.

    Refused without ``force``: the last good ones, and a directory that a program which lives writes to. Refused in any
    case: what is being read.
    """
    with _announced(storage, names) as others:
        found = survey(storage)
        if not force:
            _refuse_claimed(storage, found)
            _refuse_last(storage, found, frozenset(names), others)
        for name in names:
            _refuse_read(storage, name)
        sizes = {one.name: one.size for one in found.seen}
        for name in names:
            yield _removed(storage, name, sizes)


def _removed(storage: Storage, name: str, sizes: dict[str, int | None]) -> Removed:
    gone = not storage.names(name)
    place = f"{layout.TRASH}/{uuid.uuid4().hex}"
    storage.make(place)
    try:
        if not storage.retire(name, place):
            raise CheckpointRefusedError(_IS_READ.format(storage.url, name))
    except FileNotFoundError:
        raise CheckpointRefusedError(f"{storage.url}: a program has begun to write there meanwhile") from None
    finally:
        storage.discard(place)
    storage.discard(name)  # one without a manifest, which nobody restores
    Catalog(storage).unmark(name)
    return Removed(name, sizes.get(name), gone)


def _refuse_claimed(storage: Storage, found: Survey) -> None:
    if found.claim_error:
        raise CheckpointRefusedError(f"{storage.url}: who writes there is not to be seen: {found.claim_error}")
    if found.claimed is not None and found.claimed.lives is not False:
        raise CheckpointRefusedError(
            f"{storage.url}: {found.claimed.owner} writes its checkpoints there, and removes old ones itself; "
            "end it first, or give --force"
        )


def _refuse_last(storage: Storage, found: Survey, mine: frozenset[str], others: frozenset[str]) -> None:
    good = {one.name for one in found.seen if one.good}
    if not good & mine or good - mine - others:
        return
    why = " (another elaunch ckpt rm removes the rest)" if good - mine else ""
    raise CheckpointRefusedError(
        f"{storage.url}: no good checkpoint would be left{why}; --force removes it all the same"
    )


def _refuse_read(storage: Storage, name: str) -> None:
    try:
        if storage.is_read(f"{name}/{layout.MANIFEST}"):
            raise CheckpointRefusedError(_IS_READ.format(storage.url, name))
    except FileNotFoundError:
        return  # a partial one, which nobody restores


@contextmanager
def _announced(storage: Storage, names: Sequence[str]) -> Iterator[frozenset[str]]:
    """Say what is to be removed; what others who live have said."""
    own = f"{uuid.uuid4().hex}.json"
    storage.make(layout.REMOVING)
    hold = storage.claim(f"{layout.REMOVING}/{own}", json.dumps(list(names)).encode())
    if hold is None:
        raise CheckpointRefusedError(f"{storage.url}/{layout.REMOVING}/{own}: is there already")
    try:
        there = storage.names(layout.REMOVING)
        others = [one for one in there if one.endswith(".json") and one[0] != "." and one != own]
        yield frozenset(name for other in others for name in _said(storage, other))
    finally:
        storage.remove(f"{layout.REMOVING}/{own}")
        hold.release()


def _said(storage: Storage, other: str) -> list[str]:
    path = f"{layout.REMOVING}/{other}"
    try:
        if not storage.held(path):
            storage.remove(path)  # it was killed; names are never used twice
            return []
        return [str(name) for name in documents.parse(storage.read(path, _MOST_BYTES))]
    except (FileNotFoundError, ValueError, TypeError):
        return []
