"""One save, from the image in memory to the committed checkpoint. Runs behind the training, on every rank.

The rounds: rank 0 makes the staging directory and looks at the fence; each rank writes its file; rank 0 hears what came
of it, writes the metadata, looks at the fence again and publishes. A rank that fails says so in its round, so that
nobody waits for it.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta

from elaunch.checkpoint.collective.planning import Planned
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.encoding.image import Image
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.claims import Claim
from elaunch.checkpoint.records.manifest import FileSum, Manifest, Origin
from elaunch.checkpoint.records.writing import write_file
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError
from elaunch.inject.points import reached


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a save, equal on all ranks. ``error`` is empty where it was committed, as ``name``.

    ``blocked`` are the seconds for which rank 0's program waited for it.
    """

    step: int
    name: str = ""
    digest: str = ""
    size: int = 0
    seconds: float = 0.0
    error: str = ""
    blocked: float = 0.0

    @property
    def committed(self) -> bool:
        """Whether a restore may find it."""
        return not self.error


@dataclass(slots=True)
class Save:
    """One save of one rank. ``claim`` is there on rank 0 alone; ``broken`` says why this rank has nothing to write."""

    storage: Storage
    ranks: Ranks
    planned: Planned
    image: Image | None
    step: int
    origin: Origin
    claim: Claim | None
    broken: str = ""
    blocked: float = 0.0

    def run(self) -> Outcome:
        """Write and commit. Raises CheckpointError where another rank does not answer; all else is in the outcome."""
        began = time.monotonic()
        begun = json.loads(self.ranks.tell(json.dumps(self._begin()).encode()))
        told = self._write(begun["staging"]) if not begun["error"] else {"error": begun["error"]}
        reached("commit")
        everyone = [json.loads(one) for one in self.ranks.gather(json.dumps(told).encode())]
        outcome = self._end(begun["staging"], everyone, began) if everyone else Outcome(self.step)
        return Outcome(**json.loads(self.ranks.tell(json.dumps(dataclasses.asdict(outcome)).encode())))

    def _begin(self) -> dict[str, str]:
        """On rank 0: make the place, then look at the fence (claims.py says why in this order)."""
        if self.claim is None:
            return {}
        staging = ""
        try:
            self.claim.prepare()
            staging = self.storage.staging(self.step, self.origin.generation, self.claim.number)
            self.storage.make(staging)
            self.claim.check()
        except (OSError, CheckpointError) as error:
            return {"staging": staging, "error": describe(error)}
        return {"staging": staging, "error": ""}

    def _write(self, staging: str) -> dict[str, Any]:
        """On every rank: write this rank's file, if it has a share."""
        reached("write")
        name = layout.data_name(self.ranks.rank)
        if self.broken or self.image is None:
            return {"error": f"rank {self.ranks.rank}: {self.broken}"}
        if not self.image.plan.items:
            return {"error": "", "written": []}
        try:
            told = write_file(self.storage, f"{staging}/{name}", self.image.parts())
        except (OSError, MemoryError) as error:
            return {"error": f"rank {self.ranks.rank} on {self.origin.host}: {describe(error)}"}
        rows = [[one.index.fqn, _offset(one.index), one.offset, one.length] for one in self.image.written]
        return {"error": "", "name": name, "size": told.size, "blocks": told.blocks.hex(), "written": rows}

    def _end(self, staging: str, everyone: Sequence[dict[str, Any]], began: float) -> Outcome:
        """On rank 0: publish what all have written, or take it away."""
        errors = list(dict.fromkeys(one["error"] for one in everyone if one["error"]))
        try:
            if errors:
                raise CheckpointError("; ".join(errors[:3]) + (f" (and {len(errors) - 3} more)" if errors[3:] else ""))
            return self._publish(staging, everyone, began)
        except (OSError, CheckpointError) as error:
            return Outcome(self.step, error=describe(error) + self._cleared(staging))

    def _publish(self, staging: str, everyone: Sequence[dict[str, Any]], began: float) -> Outcome:
        if self.claim is None or self.planned.metadata is None:
            raise RuntimeError("rank 0 has no claim or no plan")
        files = {one["name"]: FileSum(one["size"], bytes.fromhex(one["blocks"])) for one in everyone if "name" in one}
        metadata = _located(self.planned.metadata, everyone)
        check_metadata(metadata, {name: told.size for name, told in files.items()}, f"{staging}/{layout.METADATA}")
        data = pickle.dumps(metadata)
        files[layout.METADATA] = write_file(self.storage, f"{staging}/{layout.METADATA}", [memoryview(data)])
        for name, told in files.items():
            if (size := self.storage.size(f"{staging}/{name}")) != told.size:
                raise CheckpointError(
                    f"{staging}/{name}: has {size} bytes, {told.size} were written; do all hosts see it?"
                )
        written = manifest.encode(
            Manifest(
                step=self.step,
                world_size=self.ranks.size,
                origin=dataclasses.replace(self.origin, claim=self.claim.number, saved_at=time.time()),
                files=files,
                entries=self.planned.entries,
                meshes=self.planned.meshes,
            )
        )
        self.claim.check()
        name = self._named(staging, written)
        size = sum(file.size for file in files.values())
        took = self.blocked + time.monotonic() - began
        return Outcome(self.step, name, manifest.digest(written), size, took, blocked=self.blocked)

    def _named(self, staging: str, written: bytes) -> str:
        """Publish under the step's name, or one of its own where this step was saved before.

        A name that was set aside once is not used again, though what had it is gone: whoever found the damage, and was
        held up, would mark what has the name now.
        """
        if self.claim is None:
            raise RuntimeError("rank 0 has no claim")
        name = layout.step_name(self.step)
        if name in self.storage.names("") or f"{name}.json" in self.storage.names(layout.MARKS):
            name = layout.step_name(self.step, self.claim.number)
        return self.storage.publish(staging, name, written)

    def _cleared(self, staging: str) -> str:
        if not staging:
            return ""
        try:
            self.storage.discard(staging)
        except OSError as error:
            return f"; what was written is left at {staging} ({describe(error)})"
        return ""


def _located(metadata: Metadata, everyone: Sequence[dict[str, Any]]) -> Metadata:
    """DCP's metadata with the place of every item, as its own writer would have it."""
    stored = {}
    for one in everyone:
        for fqn, at, offset, length in one["written"]:
            stored[MetadataIndex(fqn, at)] = filesystem._StorageInfo(one["name"], offset, length)
    version = getattr(filesystem, "CURRENT_DCP_VERSION", None)
    extra = {"version": version} if version is not None else {}
    return dataclasses.replace(metadata, storage_data=stored, storage_meta=StorageMeta(), **extra)


def _offset(index: MetadataIndex) -> list[int] | None:
    return None if index.offset is None else list(index.offset)
