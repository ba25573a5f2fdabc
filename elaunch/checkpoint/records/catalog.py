"""What stands in a checkpoint directory: its committed checkpoints, their manifests, and why some are not restored."""

from __future__ import annotations

import contextlib
import errno
import json
from dataclasses import dataclass

from elaunch.checkpoint.records import documents, manifest
from elaunch.checkpoint.records.manifest import Manifest
from elaunch.checkpoint.records.retention import Committed
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import DamagedCheckpointError

_MOST_MARK = 1 << 16
_MOST_REASON = 4096  # characters: of a damaged file it may quote what a stranger wrote


@dataclass(slots=True)
class Catalog:
    """Reads a directory. Raises OSError."""

    storage: Storage

    def names(self) -> list[str]:
        """The names of everything that is committed, in the order of their steps."""
        return self.storage.checkpoints()

    def manifest_bytes(self, name: str) -> bytes:
        """The manifest as it stands there.

        Raises DamagedCheckpointError where there is none, FileNotFoundError where all of it was removed meanwhile.
        """
        try:
            return self.storage.read(f"{name}/{layout.MANIFEST}", manifest.MOST_BYTES)
        except (FileNotFoundError, NotADirectoryError) as error:
            if isinstance(error, FileNotFoundError):
                self._check_there(name)
            raise DamagedCheckpointError(f"{name}: has no {layout.MANIFEST}") from error

    def manifest(self, name: str) -> Manifest:
        """The manifest of a checkpoint. Raises DamagedCheckpointError."""
        known = manifest.decode(self.manifest_bytes(name), f"{name}/{layout.MANIFEST}")
        if layout.step_of(name) not in (None, known.step):
            raise DamagedCheckpointError(f"{name}/{layout.MANIFEST}: is of step {known.step}")
        return known

    def check_sizes(self, name: str, known: Manifest) -> None:
        """Raises DamagedCheckpointError where a file is missing, or has another size than was written.

        FileNotFoundError where all of it was removed meanwhile.
        """
        for file, told in known.files.items():
            try:
                size = self.storage.size(f"{name}/{file}")
            except FileNotFoundError as error:
                self._check_there(name)
                raise DamagedCheckpointError(f"{name}/{file}: is missing") from error
            if size != told.size:
                raise DamagedCheckpointError(f"{name}/{file}: has {size} bytes, {told.size} were written")

    def committed(self) -> list[Committed]:
        """Every checkpoint. One whose manifest cannot be read has no claim that is known, and counts as the oldest.

        A directory without a manifest is none of ours, whatever its name.
        """
        return [
            Committed(self._claim(name), layout.step_of(name) or 0, name)
            for name in self.names()
            if self._has_manifest(name)
        ]

    def readable(self) -> list[Committed]:
        """Those that can be told from others now. What nobody can read is not counted, and is in no one's way."""
        found = []
        for name in self.names():
            with contextlib.suppress(OSError):
                if self._has_manifest(name):
                    found.append(Committed(self._claim(name), layout.step_of(name) or 0, name))
        return found

    def latest_claim(self) -> int:
        """The newest claim that a manifest tells, 0 for none; what cannot be read tells none."""
        latest = 0
        for name in self.names():
            with contextlib.suppress(OSError, DamagedCheckpointError):
                latest = max(latest, self.manifest(name).origin.claim)
        return latest

    def marks(self) -> dict[str, str]:
        """Name of a checkpoint -> why it is not restored any more."""
        return {
            name.removesuffix(".json"): self._reason(name)
            for name in self.storage.names(layout.MARKS)
            if name.endswith(".json") and layout.step_of(name.removesuffix(".json")) is not None
        }

    def mark(self, name: str, reason: str) -> None:
        """Set a checkpoint aside: it stays where it is, and is restored no more."""
        self.storage.make(layout.MARKS)
        self.storage.write(layout.mark_of(name), json.dumps({"reason": reason[:_MOST_REASON]}).encode())

    def unmark(self, name: str) -> None:
        """Take the mark away, if there is one."""
        self.storage.remove(layout.mark_of(name))

    def _check_there(self, name: str) -> None:
        if not self.storage.names(name):
            raise FileNotFoundError(errno.ENOENT, "is not there any more", name)

    def _has_manifest(self, name: str) -> bool:
        try:
            return self.storage.size(f"{name}/{layout.MANIFEST}") >= 0
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _claim(self, name: str) -> int:
        try:
            return self.manifest(name).origin.claim
        except DamagedCheckpointError:
            return 0

    def _reason(self, name: str) -> str:
        try:
            return str(documents.parse(self.storage.read(f"{layout.MARKS}/{name}", _MOST_MARK))["reason"])
        except (ValueError, KeyError, TypeError, OSError):  # the name alone says that it is set aside
            return "set aside"
