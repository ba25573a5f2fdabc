"""Restore: rank 0 chooses, every rank loads, and all go on with the same checkpoint or none does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elaunch.checkpoint.collective.loading import Contents, Objects, adopt, load, read_metadata
from elaunch.checkpoint.collective.pace import Pace
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.encoding import unpickling
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claims import Owner
from elaunch.checkpoint.records.retention import Committed, newest_first
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError, ElaunchError, StateError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be restored: the newest, or the step asked for; ``avoid`` are steps that failed before.

    A job that went back to an older step has abandoned what it had committed above it: each of ``rewinds`` is the
    generation that did, and the step.
    """

    step: int = -1
    avoid: frozenset[int] = frozenset()
    rewinds: tuple[tuple[int, int], ...] = ()

    def passes_over(self, step: int, generation: int) -> bool:
        """Whether others are to be tried before this one; ``generation`` wrote it, 0: none of this job."""
        return step in self.avoid or any(generation < later and step > to for later, to in self.rewinds)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; ``name`` is empty where there was nothing."""

    step: int = 0
    name: str = ""


@dataclass(slots=True)
class Restore:
    """One restore by one rank. ``report`` is told what was set aside, ``begin`` what is about to be read, on rank 0."""

    storage: Storage
    ranks: Ranks
    objects: Objects
    verify: bool
    owner: Owner
    report: Callable[[str, str], None]
    begin: Callable[[int, str], None] = lambda step, path: None
    _failed: list[str] = field(init=False, default_factory=list)
    _loaded: dict[str, Any] = field(init=False, default_factory=dict)
    _mine: Exception | None = field(init=False, default=None)

    def run(self, wish: Wish) -> Restored:
        """Restore the newest good one that fits the wish. Collective.

        Raises CheckpointError, on all ranks alike, where there are checkpoints and none of them can be restored: then
        the objects may be half filled.
        """
        tries = self._choices(wish) if self.ranks.rank == 0 else iter(())
        while True:
            chosen = json.loads(self.ranks.tell(json.dumps(self._next(tries)).encode()))
            if chosen["error"]:
                raise (DamagedCheckpointError if chosen["damaged"] else CheckpointError)(chosen["error"])
            if not chosen["name"]:
                return Restored()
            if self.ranks.rank == 0:
                self.begin(chosen["step"], f"{self.storage.url}/{chosen['name']}")
            told = [json.loads(one) for one in self.ranks.share(json.dumps(self._try(chosen)).encode())]
            if self._settle(chosen["name"], told):
                adopt(self.objects, self._loaded, chosen["name"], self.ranks)
                return Restored(chosen["step"], chosen["name"])

    def _next(self, tries: Iterator[dict[str, Any]]) -> dict[str, Any]:
        """On rank 0: what to try next, with all that the other ranks need of it."""
        nothing = {"name": "", "error": "", "damaged": False}
        try:
            if chosen := next(tries, None):
                return chosen
        except (OSError, CheckpointError) as error:
            return {**nothing, "error": describe(error)}
        if not self._failed:
            return nothing
        why = "; ".join(dict.fromkeys(self._failed))
        return {**nothing, "error": f"{self.storage.url}: no checkpoint can be restored: {why}", "damaged": True}

    def _choices(self, wish: Wish) -> Iterator[dict[str, Any]]:
        catalog = Catalog(self.storage)
        marks = catalog.marks()
        found: list[Committed] = []
        later: set[str] = set()
        for name in catalog.names():
            if name in marks:
                self._failed.append(f"{name} was set aside: {marks[name]}")
            elif not self._is_committed(name):
                self.report("checkpoint_set_aside", f"{name} has no {layout.MANIFEST}: it is no committed checkpoint")
            elif (known := self._looked_at(name, lambda: catalog.manifest(name))) is not None:  # noqa: B023
                found.append(Committed(known.origin.claim, known.step, name))
                generation = known.origin.generation_in(self.owner.job, self.owner.incarnation)
                if wish.passes_over(known.step, generation):
                    later.add(name)
        for one in _wished(newest_first(found), wish, later, self.storage.url, marks):
            if (chosen := self._looked_at(one.name, lambda: self._chosen(catalog, one))) is not None:  # noqa: B023
                yield chosen

    def _chosen(self, catalog: Catalog, one: Committed) -> dict[str, Any]:
        data = catalog.manifest_bytes(one.name)
        catalog.check_sizes(one.name, manifest.decode(data, f"{one.name}/{layout.MANIFEST}"))
        metadata = self.storage.read(f"{one.name}/{layout.METADATA}", unpickling.MOST_BYTES)
        return {
            "name": one.name,
            "error": "",
            "step": one.step,
            "manifest": base64.b64encode(data).decode(),
            "metadata": base64.b64encode(metadata).decode(),
        }

    def _is_committed(self, name: str) -> bool:
        try:
            return self.storage.size(f"{name}/{layout.MANIFEST}") >= 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # of which more is heard when it is read

    def _looked_at(self, name: str, look: Callable[[], _T]) -> _T | None:
        """What was seen of a checkpoint; None where it is damaged, or nobody can read it now."""
        try:
            return look()
        except DamagedCheckpointError as error:
            self._set_aside(name, str(error))
        except OSError as error:
            self._unread(name, describe(error))
        return None

    def _try(self, chosen: dict[str, Any]) -> dict[str, str]:
        """On every rank: load it. What went wrong, in words, and of which kind."""
        name = chosen["name"]
        try:
            hold = self.storage.reading(f"{name}/{layout.MANIFEST}")
            try:
                self._load(name, base64.b64decode(chosen["manifest"]), base64.b64decode(chosen["metadata"]))
            finally:
                hold.release()
        except DamagedCheckpointError as error:
            return {"kind": "damaged", "error": str(error)}
        except FileNotFoundError as error:
            return {"kind": "gone", "error": describe(error)}
        except OSError as error:
            return {"kind": "unread", "error": f"rank {self.ranks.rank} on {self.owner.host}: {describe(error)}"}
        except ElaunchError as error:
            self._mine = error
            return {"kind": "state" if isinstance(error, StateError) else "error", "error": f"{name}: {error}"}
        return {"kind": "", "error": ""}

    def _load(self, name: str, manifest_bytes: bytes, metadata_bytes: bytes) -> None:
        known = manifest.decode(manifest_bytes, f"{name}/{layout.MANIFEST}")
        metadata = read_metadata(metadata_bytes, known, name)
        contents = Contents(self.storage, name, metadata, known.files, known.world_size)
        advance = Pace(name, self._under_way).advance
        self._loaded = load(contents, self.objects, self.ranks.rank, verify=self.verify, advance=advance)

    def _under_way(self, text: str) -> None:
        if self.ranks.rank == 0:
            self.report("checkpoint_reading", text)

    def _settle(self, name: str, told: list[dict[str, str]]) -> bool:
        """What all ranks make of the ranks' answers: whether it is restored, else the next one is tried."""
        if told[0]["kind"] != "gone" and (gone := next((one for one in told if one["kind"] == "gone"), None)):
            raise CheckpointError(f"{gone['error']}; all hosts must see {self.storage.url}")
        for kind, raised in (("state", StateError), ("error", CheckpointError)):
            for one in told:
                if one["kind"] == kind:
                    raise raised(one["error"]) from self._mine
        bad = [one for one in told if one["kind"]]
        damaged = [one["error"] for one in bad if one["kind"] == "damaged"]
        if self.ranks.rank == 0 and damaged:
            self._set_aside(name, damaged[0])
        elif self.ranks.rank == 0 and bad:
            self._unread(name, bad[0]["error"])
        return not bad

    def _unread(self, name: str, reason: str) -> None:
        self._failed.append(f"{name}: {reason}")
        self.report("checkpoint_unread", f"{name} could not be read, an older one is tried: {reason}")

    def _set_aside(self, name: str, reason: str) -> None:
        self._failed.append(reason)
        self.report("checkpoint_set_aside", f"{name} is set aside, an older one is tried: {reason}")
        try:
            Catalog(self.storage).mark(name, reason)
        except OSError as error:
            self.report("checkpoint_set_aside", f"{name} could not be marked: {describe(error)}")


def _wished(found: list[Committed], wish: Wish, later: set[str], url: str, marks: dict[str, str]) -> list[Committed]:
    """In the order in which they are tried: those that are to be passed over only where there is nothing else."""
    if wish.step < 0:
        return sorted(found, key=lambda one: one.name in later)
    asked = [one for one in found if one.step == wish.step]
    if not asked:
        there = ", ".join(str(one.step) for one in sorted(found, key=lambda one: one.step)) or "none"
        aside = [reason for name, reason in marks.items() if layout.step_of(name) == wish.step]
        why = f" ({aside[0]})" if aside else ""
        raise CheckpointError(f"{url}: no checkpoint of step {wish.step} to restore{why}; there are: {there}")
    return asked
