"""What stands in a checkpoint directory, and in what state of health: for whoever looks from outside, any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elaunch.checkpoint.records import attempts, manifest
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claimant import Claimant, claimant
from elaunch.checkpoint.records.directory import is_stock
from elaunch.checkpoint.records.manifest import Origin
from elaunch.checkpoint.records.retention import Committed, newest_first
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError

OK = "ok"
SUSPECT = "suspect"  # starts from it came to no save: restored only where there is no other
SET_ASIDE = "set aside"
PARTIAL = "partial"
DAMAGED = "damaged"
UNREADABLE = "unreadable"
WRITING = "being written"
LEFT_OVER = "left over"
STOCK = "no sums"
_RESTORED = (OK, SUSPECT)


@dataclass(frozen=True, slots=True)
class Seen:
    """One checkpoint, or one save that is not committed. ``size`` is in bytes; ``newest`` is what a restore takes."""

    name: str
    step: int
    health: str
    reason: str = ""
    size: int | None = None
    world_size: int | None = None
    meshes: tuple[Mapping[str, Any], ...] = ()
    origin: Origin = field(default_factory=Origin)
    newest: bool = False

    @property
    def good(self) -> bool:
        """Whether a restore may take it, as far as sizes tell."""
        return self.health in _RESTORED


@dataclass(frozen=True, slots=True)
class Survey:
    """A directory: what is committed, by step, then what is being written; who has claimed it.

    ``trash`` is how many directories are half deleted: the next run goes on with them.
    """

    seen: tuple[Seen, ...]
    claimed: Claimant | None
    claim_error: str
    trash: int


def look(storage: Storage, name: str) -> Survey:
    """Look at one checkpoint, by itself. Raises OSError."""
    catalog = Catalog(storage)
    return Survey(tuple(_checkpoint(catalog, name, catalog.marks(), frozenset())), None, "", 0)


def survey(storage: Storage) -> Survey:
    """Look at all of a directory. Nothing is changed. Raises OSError."""
    catalog = Catalog(storage)
    marks, suspects = catalog.marks(), attempts.suspects(storage)
    committed = catalog.names()
    found = [one for name in committed for one in _checkpoint(catalog, name, marks, suspects)]
    claimed, error = _claimed(storage)
    unsettled = [_staged(staged, path, claimed) for path, staged in _saves(storage)]
    return Survey((*_in_order(found), *unsettled), claimed, error, _half_deleted(storage))


def _checkpoint(catalog: Catalog, name: str, marks: Mapping[str, str], suspects: frozenset[int]) -> Iterator[Seen]:
    """It, or nothing where it is gone by now."""
    seen = Seen(name, layout.step_of(name) or 0, OK)
    try:
        data = catalog.manifest_bytes(name)
        known = manifest.decode(data, f"{name}/{layout.MANIFEST}")
    except (DamagedCheckpointError, OSError) as error:
        health, reason = _without_manifest(catalog.storage, name, error)
        if health:
            yield _aside(replace(seen, health=health, reason=reason), marks)
        return
    seen = replace(
        seen,
        step=known.step,
        size=known.size + len(data),
        world_size=known.world_size,
        meshes=known.meshes,
        origin=known.origin,
    )
    try:
        catalog.check_sizes(name, known)
    except FileNotFoundError:
        return
    except DamagedCheckpointError as error:
        seen = replace(seen, health=PARTIAL, reason=str(error))
    except OSError as error:
        seen = replace(seen, health=UNREADABLE, reason=describe(error))
    if seen.health == OK and seen.step in suspects:
        seen = replace(seen, health=SUSPECT, reason=f"{attempts.LIMIT} starts from it came to no save")
    yield _aside(seen, marks)


def _without_manifest(storage: Storage, name: str, error: OSError | DamagedCheckpointError) -> tuple[str, str]:
    """What it is when its manifest cannot be read, and why; nothing where it is gone."""
    if isinstance(error, FileNotFoundError):
        return "", ""
    if isinstance(error, OSError):
        return UNREADABLE, describe(error)
    try:
        present = storage.names(name)
        if layout.MANIFEST in present:
            return DAMAGED, str(error)
        if is_stock(storage, name):
            return STOCK, f"no {layout.MANIFEST}: torch.distributed.checkpoint itself wrote it"
    except OSError as problem:
        return UNREADABLE, describe(problem)
    return (PARTIAL, str(error)) if present else ("", "")


def _aside(seen: Seen, marks: Mapping[str, str]) -> Seen:
    return replace(seen, health=SET_ASIDE, reason=marks[seen.name]) if seen.name in marks else seen


def _in_order(found: list[Seen]) -> list[Seen]:
    """By step; what a restore takes is marked: later claims are later history, whatever the steps."""
    by_name = {one.name: one for one in found}
    order = newest_first(Committed(one.origin.claim, one.step, one.name) for one in found)
    for health in _RESTORED:
        best = next((one.name for one in order if by_name[one.name].health == health), None)
        if best is not None:
            by_name[best] = replace(by_name[best], newest=True)
            break
    return sorted(by_name.values(), key=lambda one: (one.step, one.origin.claim, one.name))


def _claimed(storage: Storage) -> tuple[Claimant | None, str]:
    try:
        return claimant(storage), ""
    except CheckpointError as error:
        return None, str(error)
    except OSError as error:
        return None, describe(error)


def _saves(storage: Storage) -> Iterator[tuple[str, layout.Staged]]:
    """The saves that are not committed: object stores have them where they will stay."""
    for name in storage.names(layout.STAGING):
        if (staged := layout.staged_of(name)) is not None:
            yield f"{layout.STAGING}/{name}", staged
    present = storage.names("")
    known = frozenset(storage.checkpoints())  # after that: what is committed meanwhile is no save any more
    for name in present:
        if (step := layout.step_of(name)) is not None and name not in known:
            yield name, layout.Staged(step, 0, layout.claim_in(name))


def _half_deleted(storage: Storage) -> int:
    retired = (storage.names(f"{layout.RETIRED}/{name}") for name in storage.names(layout.RETIRED))
    return len(storage.names(layout.TRASH)) + sum(map(len, retired))


def _staged(staged: layout.Staged, place: str, claimed: Claimant | None) -> Seen:
    origin = Origin(generation=staged.generation, claim=staged.claim)
    if claimed is None or claimed.number != staged.claim:
        return Seen(place, staged.step, LEFT_OVER, "of a run that is over; the next one removes it", origin=origin)
    origin = replace(origin, job=claimed.owner.job, host=claimed.owner.host)
    if claimed.lives is False:
        return Seen(place, staged.step, LEFT_OVER, f"of {claimed.owner}, which is gone", origin=origin)
    unsure = " (whether it lives is not to be seen by this user)" if claimed.lives is None else ""
    return Seen(place, staged.step, WRITING, f"by {claimed.owner}{unsure}", origin=origin)
