"""Load from a directory that another program wrote with torch.distributed.checkpoint: no manifest, no sums, no step."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from elaunch.checkpoint.collective.agreeing import agree
from elaunch.checkpoint.collective.loading import Contents, Objects, adopt, load, read_metadata
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.encoding import unpickling
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError


@dataclass(slots=True)
class Load:
    """One load by one rank, of the checkpoint ``name`` of a directory. One of our own is checked by its manifest."""

    storage: Storage
    name: str
    ranks: Ranks
    objects: Objects
    verify: bool

    def run(self, partial: bool) -> None:
        """Fill the objects. Collective. Raises CheckpointError on all ranks alike."""
        found = json.loads(self.ranks.tell(json.dumps(self._found() if self.ranks.rank == 0 else {}).encode()))
        if found["error"]:
            raise CheckpointError(found["error"])

        def filled() -> dict[str, Any]:
            return load(self._contents(found), self.objects, self.ranks.rank, verify=self.verify, partial=partial)

        loaded = agree(self.ranks, filled, f"{self.name} cannot be loaded")
        adopt(self.objects, loaded, self.name, self.ranks)

    def _found(self) -> dict[str, Any]:
        """On rank 0: what stands there."""
        try:
            files = self.storage.names(self.name)
            if layout.METADATA not in files:
                inside = [file for file in files if layout.step_of(file) is not None]
                raise CheckpointError(
                    f"{self.storage.url}/{self.name} is no checkpoint of torch.distributed.checkpoint: it has no "
                    f"{layout.METADATA}" + (f"; load one of those in it, as {self.name}/{inside[-1]}" if inside else "")
                )
            metadata = self.storage.read(f"{self.name}/{layout.METADATA}", unpickling.MOST_BYTES)
            ours = layout.MANIFEST in files
            known = self.storage.read(f"{self.name}/{layout.MANIFEST}", manifest.MOST_BYTES) if ours else b""
            sizes = {file: self.storage.size(f"{self.name}/{file}") for file in files if layout.is_plain(file)}
        except (OSError, CheckpointError) as error:
            return {"error": describe(error)}
        return {"error": "", "metadata": _text(metadata), "manifest": _text(known), "sizes": sizes}

    def _contents(self, found: dict[str, Any]) -> Contents:
        data, sizes = base64.b64decode(found["metadata"]), found["sizes"]
        if not found["manifest"]:
            where = f"{self.name}/{layout.METADATA}"
            metadata = unpickling.load_metadata(data, where)
            check_metadata(metadata, sizes, where)
            return Contents(self.storage, self.name, metadata, None, self.ranks.size)
        known = manifest.decode(base64.b64decode(found["manifest"]), f"{self.name}/{layout.MANIFEST}")
        for file, told in known.files.items():
            if sizes.get(file) != told.size:
                raise DamagedCheckpointError(
                    f"{self.name}/{file}: has {sizes.get(file, 'no')} bytes, {told.size} were written"
                )
        return Contents(self.storage, self.name, read_metadata(data, known, self.name), known.files, known.world_size)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
