"""A checkpoint directory on an object store, or on anything else that fsspec reaches.

There is no rename: a save is written where it stays, and its manifest, written last, is the commit. There are no
locks: a claim shows signs of life (beats.py). And nothing takes away what an older run would publish, so each claim is
*sealed*: it lists what was committed when it was made, and a checkpoint of an older claim counts only if it is on that
list. An older run that publishes looks at the fence *afterwards*: either it finds the newer claim, and knows that it
came too late, or the newer one's list has it.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import Any

from elaunch.checkpoint import layout
from elaunch.checkpoint.beats import Beat, beats

_MOST_BYTES = 1 << 20


class ObjectSink:
    """A new object, there as a whole once it is finished, or not at all."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._finished = False

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)

    def finish(self) -> None:
        self._file.close()
        self._finished = True

    def close(self) -> None:
        if not self._finished and hasattr(self._file, "discard"):
            self._file.discard()


@dataclass(slots=True)
class ObjectSource:
    """An object that is read by ranges."""

    fs: Any
    path: str
    size: int

    def read_into(self, offset: int, view: memoryview) -> None:
        data = self.fs.cat_file(self.path, start=offset, end=offset + len(view))
        if len(data) != len(view):
            raise OSError(errno.EIO, f"ends at byte {offset + len(data)}", self.path)
        view[:] = data

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class NoHold:
    """Object stores do not know who reads."""

    def release(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Objects:
    """What is below ``root`` in the fsspec file system ``fs``; ``url`` names it to people."""

    fs: Any
    root: str
    url: str
    fence_after_publish: bool = True

    def names(self, path: str) -> list[str]:
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self._at(path), detail=False)
        except FileNotFoundError:
            return []
        own = self._at(path).rstrip("/")
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found if name.rstrip("/") != own)

    def checkpoints(self) -> list[str]:
        newest = max((layout.claim_of(name) or 0 for name in self.names(layout.CLAIMS)), default=0)
        sealed, listed = self._newest_seal(newest)
        return [name for name in self._published() if layout.claim_in(name) >= sealed or name in listed]

    def leftovers(self, claim: int) -> list[str]:
        published = set(self._published())
        return [
            name
            for name in self.names("")
            if layout.step_of(name) is not None and name not in published and 0 < layout.claim_in(name) < claim
        ]

    def read(self, path: str, most: int) -> bytes:
        if (size := self.size(path)) > most:
            raise OSError(errno.EFBIG, f"has {size} bytes, more than {most}", self._at(path))
        return bytes(self.fs.cat_file(self._at(path)))

    def write(self, path: str, data: bytes) -> None:
        self._parent(path)
        self.fs.pipe_file(self._at(path), data)

    def remove(self, path: str) -> None:
        try:
            self.fs.rm_file(self._at(path))
        except FileNotFoundError:
            return

    def size(self, path: str) -> int:
        self.fs.invalidate_cache()
        return int(self.fs.info(self._at(path))["size"])

    def source(self, path: str) -> ObjectSource:
        return ObjectSource(self.fs, self._at(path), self.size(path))

    def sink(self, path: str) -> ObjectSink:
        if self.fs.exists(self._at(path)):
            raise FileExistsError(errno.EEXIST, "exists", self._at(path))
        return ObjectSink(self.fs.open(self._at(path), "wb"))

    def make(self, path: str) -> None:
        self.fs.makedirs(self._at(path), exist_ok=True)

    def staging(self, step: int, generation: int, claim: int) -> str:
        return layout.step_name(step, claim)

    def publish(self, staging: str, name: str, manifest: bytes) -> str:
        if not self._create(f"{staging}/{layout.MANIFEST}", manifest):
            raise FileExistsError(errno.EEXIST, "was published before", self._at(staging))
        return staging

    def discard(self, path: str) -> None:
        """The manifest goes first: what is left of it is no checkpoint any more."""
        self.remove(f"{path}/{layout.MANIFEST}")
        try:
            self.fs.rm(self._at(path), recursive=True)
        except FileNotFoundError:
            return

    def retire(self, name: str, retired: str) -> bool:
        self.discard(name)
        return True

    def claim(self, path: str, data: bytes) -> Beat | None:
        if not self._create(path, data):
            return None
        beat = Beat(lambda value: self.write(f"{path}.beat", value), lambda: self.remove(f"{path}.beat"))
        number = layout.claim_of(path.rsplit("/", 1)[-1])
        if number is not None:  # one of the directory, not of something in it
            sealed, listed = self._newest_seal(number - 1)
            standing = [name for name in self._published() if layout.claim_in(name) >= sealed or name in listed]
            self.write(f"{layout.SEALS}/{layout.claim_name(number)}", json.dumps(standing).encode())
        return beat

    def held(self, path: str) -> bool:
        def read() -> bytes | None:
            try:
                return self.read(f"{path}.beat", _MOST_BYTES)
            except FileNotFoundError:
                return None

        return beats(read)

    def reading(self, name: str) -> NoHold:
        return NoHold()

    def is_read(self, name: str) -> bool:
        return False

    def _published(self) -> list[str]:
        return [
            name
            for name in self.names("")
            if layout.step_of(name) is not None and self.fs.exists(self._at(f"{name}/{layout.MANIFEST}"))
        ]

    def _newest_seal(self, newest: int) -> tuple[int, frozenset[str]]:
        """The number of the newest sealed claim that is not above ``newest``, and what it lists."""
        numbers = [layout.claim_of(name) or 0 for name in self.names(layout.SEALS)]
        number = max((one for one in numbers if one <= newest), default=0)
        if not number:
            return 0, frozenset()
        return number, frozenset(json.loads(self.read(f"{layout.SEALS}/{layout.claim_name(number)}", _MOST_BYTES)))

    def _create(self, path: str, data: bytes) -> bool:
        """Put an object that is not there yet, as one step where the store has that."""
        self._parent(path)
        try:
            self.fs.pipe_file(self._at(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def _parent(self, path: str) -> None:
        self.fs.makedirs(self._at(path).rsplit("/", 1)[0], exist_ok=True)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root
