"""Restore: rank 0 chooses, every rank loads, and all go on with the same checkpoint or none does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch.distributed.checkpoint import DefaultLoadPlanner, Metadata

from elaunch.checkpoint import layout, manifest, unpickling
from elaunch.checkpoint.archive import load_value
from elaunch.checkpoint.catalog import Catalog
from elaunch.checkpoint.committing import describe
from elaunch.checkpoint.manifest import Manifest
from elaunch.checkpoint.ranks import Ranks
from elaunch.checkpoint.reading import BlockReader
from elaunch.checkpoint.retention import Committed, newest_first
from elaunch.checkpoint.saved import Saved, saved_keys
from elaunch.checkpoint.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError, ElaunchError


class Objects(Protocol):
    """What is restored: states.States."""

    def targets(self, saved: Mapping[str, Saved], saved_world: int) -> dict[str, Any]:
        """A state dict of what the checkpoint has, with tensors to be filled."""

    def adopt(self, loaded: dict[str, Any]) -> None:
        """Put what was loaded into the program's objects."""


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
        """Whether others are to be tried before this one; ``generation`` is the one that wrote it."""
        return step in self.avoid or any(generation < later and step > to for later, to in self.rewinds)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; ``name`` is empty where there was nothing."""

    step: int = 0
    name: str = ""


class LoadPlanner(DefaultLoadPlanner):  # type: ignore[misc]
    """DCP's, but for values that are no tensors: those are read without running what they may hold."""

    def load_bytes(self, read_item: Any, value: Any) -> None:
        from torch.distributed.checkpoint._nested_dict import set_element

        key = read_item.dest_index.fqn
        set_element(self.original_state_dict, self.mappings[key], load_value(value.getbuffer(), key))


@dataclass(slots=True)
class Restore:
    """One restore by one rank. ``report`` is told what was set aside, ``begin`` what is about to be read, on rank 0."""

    storage: Storage
    ranks: Ranks
    objects: Objects
    verify: bool
    host: str
    report: Callable[[str, str], None]
    begin: Callable[[int, str], None] = lambda step, path: None

    def run(self, wish: Wish) -> Restored:
        """Restore the newest good one that fits the wish. Collective.

        Raises CheckpointError, on all ranks alike, where there are checkpoints and none of them can be restored: then
        the objects may be half filled.
        """
        tries = self._choices(wish) if self.ranks.rank == 0 else iter(())
        failed: list[str] = []
        while True:
            chosen = json.loads(self.ranks.tell(json.dumps(self._next(tries)).encode()))
            if chosen["error"]:
                raise CheckpointError(chosen["error"])
            if not chosen["name"]:
                if failed:
                    raise CheckpointError(f"{self.storage.url}: no checkpoint can be restored: {'; '.join(failed)}")
                return Restored()
            if self.ranks.rank == 0:
                self.begin(chosen["step"], f"{self.storage.url}/{chosen['name']}")
            told = [json.loads(one) for one in self.ranks.share(json.dumps(self._try(chosen)).encode())]
            damage = self._settle(chosen["name"], told)
            if not damage:
                return Restored(chosen["step"], chosen["name"])
            failed.append(damage)

    def _next(self, tries: Iterator[dict[str, Any]]) -> dict[str, Any]:
        """On rank 0: what to try next, with all that the other ranks need of it."""
        nothing = {"name": "", "error": ""}
        try:
            return next(tries, nothing)
        except (OSError, CheckpointError) as error:
            return {**nothing, "error": describe(error)}

    def _choices(self, wish: Wish) -> Iterator[dict[str, Any]]:
        catalog = Catalog(self.storage)
        marks = catalog.marks()
        found: list[Committed] = []
        later: set[str] = set()
        for name in catalog.names():
            if name in marks:
                continue
            try:
                origin = catalog.manifest(name).origin
            except DamagedCheckpointError as error:
                self._set_aside(name, str(error))
                continue
            found.append(Committed(origin.claim, layout.step_of(name) or 0, name))
            if wish.passes_over(found[-1].step, origin.generation):
                later.add(name)
        for one in _wished(newest_first(found), wish, later, self.storage.url, marks):
            try:
                data = catalog.manifest_bytes(one.name)
                known = manifest.decode(data, f"{one.name}/{layout.MANIFEST}")
                catalog.check_sizes(one.name, known)
                metadata = self.storage.read(f"{one.name}/{layout.METADATA}", unpickling.MOST_BYTES)
            except DamagedCheckpointError as error:
                self._set_aside(one.name, str(error))
                continue
            yield {
                "name": one.name,
                "error": "",
                "step": one.step,
                "manifest": base64.b85encode(data).decode(),
                "metadata": base64.b85encode(metadata).decode(),
            }

    def _try(self, chosen: dict[str, Any]) -> dict[str, str]:
        """On every rank: load it. What went wrong, in words, and of which kind."""
        name = chosen["name"]
        try:
            with_hold = self.storage.reading(f"{name}/{layout.MANIFEST}")
            try:
                self._load(name, base64.b85decode(chosen["manifest"]), base64.b85decode(chosen["metadata"]))
            finally:
                with_hold.release()
        except DamagedCheckpointError as error:
            return {"kind": "damaged", "error": str(error)}
        except FileNotFoundError as error:
            return {"kind": "error", "error": f"{describe(error)}; all hosts must see {self.storage.url}"}
        except OSError as error:
            return {"kind": "unread", "error": f"rank {self.ranks.rank} on {self.host}: {describe(error)}"}
        except (ElaunchError, ValueError, RuntimeError, KeyError) as error:
            return {"kind": "error", "error": f"{name}: {describe(error)}"}
        return {"kind": "", "error": ""}

    def _load(self, name: str, manifest_bytes: bytes, metadata_bytes: bytes) -> None:
        known = manifest.decode(manifest_bytes, f"{name}/{layout.MANIFEST}")
        metadata = read_metadata(metadata_bytes, known, name)
        targets = self.objects.targets(saved_keys(metadata), known.world_size)
        planner = LoadPlanner()
        planner.set_up_planner(targets, metadata, is_coordinator=self.ranks.rank == 0)
        reader = BlockReader(self.storage, name, metadata, known.files, self.verify)
        reader.read_data(planner.finish_plan(planner.create_local_plan()), planner)
        self.objects.adopt(targets)

    def _settle(self, name: str, told: list[dict[str, str]]) -> str:
        """What all ranks make of the ranks' answers: empty where it is restored, else why the next one is tried."""
        for one in told:
            if one["kind"] == "error":
                raise CheckpointError(one["error"])
        bad = [one for one in told if one["kind"]]
        if not bad:
            return ""
        damaged = [one["error"] for one in bad if one["kind"] == "damaged"]
        if self.ranks.rank == 0 and damaged:
            self._set_aside(name, damaged[0])
        elif self.ranks.rank == 0:
            self.report("checkpoint_unread", f"{name} could not be read, an older one is tried: {bad[0]['error']}")
        return (damaged or [bad[0]["error"]])[0]

    def _set_aside(self, name: str, reason: str) -> None:
        self.report("checkpoint_set_aside", f"{name} is set aside, an older one is tried: {reason}")
        try:
            Catalog(self.storage).mark(name, reason)
        except OSError as error:
            self.report("checkpoint_set_aside", f"{name} could not be marked: {describe(error)}")


def read_metadata(data: bytes, known: Manifest, name: str) -> Metadata:
    """DCP's metadata of a checkpoint, checked against its manifest. Raises DamagedCheckpointError."""
    where = f"{name}/{layout.METADATA}"
    told = known.files.get(layout.METADATA)
    if told is None or told.size != len(data) or told.blocks != manifest.block_sums(data):
        raise DamagedCheckpointError(f"{where}: damaged: its sum does not fit")
    metadata = unpickling.load_metadata(data, where)
    unpickling.check_metadata(metadata, {file: one.size for file, one in known.files.items()}, where)
    return metadata


def _wished(
    found: list[Committed], wish: Wish, later: set[str], url: str, marks: dict[str, str]
) -> list[Committed]:
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
