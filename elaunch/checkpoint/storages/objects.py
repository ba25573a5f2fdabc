"""A checkpoint directory on an object store, or on anything else that fsspec reaches.

What is relied on: that what was written is seen by whoever looks afterwards, in listings too, and that an object can be
created only where there is none, as one step (S3: ``If-None-Match``); a store that cannot is refused. There is no
rename: a save is written where it stays, and its manifest, created last, is the commit. There are no locks: a claim
shows signs of life (beats.py). Nothing takes away what an older run would publish: seals.py says what counts.
"""

from __future__ import annotations

import errno
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from elaunch.checkpoint.storages import beats, layout, seals
from elaunch.checkpoint.storages.object_errors import as_os_errors
from elaunch.checkpoint.storages.object_files import ObjectSink, ObjectSource

_MOST_BYTES = 1 << 10
# In these a folder is only the beginning of a name, and "making" one may create a bucket.
_WITHOUT_FOLDERS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci", "cosn", "r2"})


@dataclass(slots=True)
class NoHold:
    """Object stores do not know who reads."""

    def release(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Objects:
    """What is below ``root`` in the fsspec file system ``fs``; ``url`` names it to people.

    ``interval`` is how often, in seconds, a claim shows a sign of life.
    """

    fs: Any
    root: str
    url: str
    interval: float = field(default_factory=lambda: beats.INTERVAL)
    _ahead: deque[ObjectSource] = field(init=False, default_factory=deque)
    _dead: dict[str, bytes] = field(init=False, default_factory=dict)

    def names(self, path: str) -> list[str]:
        own = self._at(path).rstrip("/")
        with as_os_errors(self._shown(path)):
            self.fs.invalidate_cache()
            try:
                found = self.fs.ls(own, detail=False)
            except FileNotFoundError:
                return []
        return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in found if name.rstrip("/") != own})

    def checkpoints(self) -> list[str]:
        return seals.counting(self)

    def published(self) -> list[str]:
        """All that has a manifest, whether it counts or not."""
        return [name for name, files in self._saves().items() if layout.MANIFEST in files]

    def leftovers(self, claim: int) -> list[str]:
        counts = set(self.checkpoints())
        # By name: where there are directories, they may be empty. A copy that tells no claim is nobody's.
        return [name for name in self.names("") if name not in counts and 0 < layout.claim_in(name) < claim]

    def read(self, path: str, most: int) -> bytes:
        try:
            with as_os_errors(self._shown(path)):
                data = bytes(self.fs.cat_file(self._at(path), start=0, end=most + 1))
        except OSError as error:
            if error.errno != errno.EINVAL or self.size(path):
                raise
            return b""  # of nothing S3 has no ranges
        if len(data) > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", self._shown(path))
        return data

    def write(self, path: str, data: bytes) -> None:
        with as_os_errors(self._shown(path)):
            self._parent(path)
            self.fs.pipe_file(self._at(path), data)

    def remove(self, path: str) -> None:
        with as_os_errors(self._shown(path)):
            try:
                self.fs.rm_file(self._at(path))
            except FileNotFoundError:
                return

    def size(self, path: str) -> int:
        with as_os_errors(self._shown(path)):
            self.fs.invalidate_cache()
            return int(self.fs.info(self._at(path))["size"] or 0)

    def source(self, path: str) -> ObjectSource:
        return ObjectSource(self.fs, self._at(path), self.size(path), self._ahead)

    def sink(self, path: str) -> ObjectSink:
        if self._is_there(path):
            raise FileExistsError(errno.EEXIST, "is there already", self._shown(path))
        with as_os_errors(self._shown(path)):
            self._parent(path)
        return ObjectSink(self.fs, self._at(path))

    def make(self, path: str) -> None:
        """Directories come with what is in them."""

    def staging(self, step: int, generation: int, claim: int) -> str:
        """Where it will stay: a name that nothing has."""
        marked = (name.removesuffix(".json") for name in self.names(layout.MARKS))
        present = {*self.names(""), *marked}
        names = (layout.step_name(step, claim, take) for take in itertools.count())
        return next(name for name in names if name not in present)

    def publish(self, staging: str, name: str, manifest: bytes) -> str:
        path = f"{staging}/{layout.MANIFEST}"
        if not self.create(path, manifest) and self.read(path, len(manifest)) != manifest:
            raise FileExistsError(errno.EEXIST, "was published before", self._shown(staging))
        if seals.is_refused(self, staging):
            raise OSError(errno.ESTALE, "came too late: a newer run has claimed the directory", self._shown(staging))
        return staging

    def discard(self, path: str) -> None:
        """The manifest goes first: what is left of it is no checkpoint any more."""
        self.remove(f"{path}/{layout.MANIFEST}")
        with as_os_errors(self._shown(path)):
            self.fs.invalidate_cache()
            try:
                self.fs.rm(self._at(path), recursive=True)
            except FileNotFoundError:
                return

    def retire(self, name: str, retired: str) -> bool:
        self.discard(name)
        return True

    def claim(self, path: str, data: bytes) -> beats.Beat | None:
        if self.create(layout.PROBE, b"") and self.create(layout.PROBE, b""):
            what = "this store overwrites where it was asked to create (no conditional writes): two jobs could claim it"
            raise OSError(errno.ENOTSUP, what, self.url)
        if not self.create(path, data):
            return None
        sign = f"{path}.beat"
        beat = beats.Beat(lambda value: self.write(sign, value), lambda: self.remove(sign), self.interval)
        above, _, name = path.rpartition("/")
        number = layout.claim_of(name) if above == layout.CLAIMS else None
        try:
            if number is not None:
                seals.seal(self, number)
                self._sweep_seals(number)
        except OSError as error:
            beat.release()
            if error.errno != errno.ESTALE:
                raise
            self.remove(path)  # this process was held up, and the number was free again
            return None
        return beat

    def held(self, path: str) -> bool:
        sign = f"{path}.beat"

        def read() -> bytes | None:
            try:
                return self.read(sign, _MOST_BYTES)
            except FileNotFoundError:
                return None

        if (known := self._dead.get(path)) is not None and read() in (known, None):
            return False  # since it was looked at last: longer than any owner takes
        kept = beats.beats(read, self.interval)
        if kept:
            self._dead[path] = kept
        return kept is None

    def reading(self, name: str) -> NoHold:
        return NoHold()

    def is_read(self, name: str) -> bool:
        return False

    def create(self, path: str, data: bytes) -> bool:
        """Put an object that is not there yet, as one step; False where it is. Raises OSError."""
        try:
            with as_os_errors(self._shown(path)):
                self._parent(path)
                self._create(self._at(path), data)
        except FileExistsError:
            return False
        except (NotImplementedError, ValueError) as error:
            raise OSError(
                errno.ENOTSUP, f"cannot create an object only where there is none: {error}", self.url
            ) from error
        except (
            OSError
        ):  # it may have been done all the same, or another was faster and the store says so in other words
            try:
                return self.read(path, len(data)) == data
            except FileNotFoundError:
                pass
            raise
        return True

    def _create(self, path: str, data: bytes) -> None:
        from fsspec import AbstractFileSystem  # rarely needed, and slow to load

        if getattr(self.fs.pipe_file, "__func__", None) is not AbstractFileSystem.pipe_file:
            self.fs.pipe_file(path, data, mode="create")
            return
        with self.fs.open(path, "xb") as file:  # fsspec's own way would look first, and then write over what has come
            file.write(data)

    def _saves(self) -> dict[str, set[str]]:
        """All directories of saves, sorted, each with the names in it: one listing, of as many pages as it takes."""
        with as_os_errors(self.url):
            self.fs.invalidate_cache()
            try:
                found = self.fs.find(self.root)
            except FileNotFoundError:
                return {}
        inside = (key[len(self.root) + 1 :].split("/") for key in found)
        saves: dict[str, set[str]] = {}
        for name, *rest in inside:
            if rest and layout.step_of(name) is not None:
                saves.setdefault(name, set()).add(rest[0])
        return dict(sorted(saves.items()))

    def _sweep_seals(self, number: int) -> None:
        for name in self.names(layout.SEALS):
            if (layout.claim_of(name) or number) < number:
                self.remove(f"{layout.SEALS}/{name}")

    def _is_there(self, path: str) -> bool:
        try:
            return self.size(path) >= 0
        except FileNotFoundError:
            return False

    def _parent(self, path: str) -> None:
        kinds = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        if not kinds & _WITHOUT_FOLDERS:
            self.fs.makedirs(self._at(path).rsplit("/", 1)[0], exist_ok=True)

    def _shown(self, path: str) -> str:
        return f"{self.url}/{path}" if path else self.url

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root
