"""What a checkpoint directory must offer: one interface, for file systems and for object stores.

Paths are relative to the directory, with "/" between their parts. Every method may raise OSError; nothing else.
"""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """A new file that is being written, from its start to its end."""

    def write(self, data: bytes | memoryview) -> None:
        """Append all of it."""

    def finish(self) -> None:
        """Return once all of it would survive a loss of power."""

    def close(self) -> None:
        """Let go of it; what was not finished is worth nothing."""


class Source(Protocol):
    """A file that is being read, at any place, by several threads."""

    size: int

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill the view. Raises OSError (EIO) where the file ends before."""

    def close(self) -> None:
        """Let go of it."""


class Hold(Protocol):
    """A claim that lives as long as its owner."""

    def release(self) -> None:
        """Let others have it."""


class Storage(Protocol):
    """A checkpoint directory."""

    url: str

    def checkpoints(self) -> list[str]:
        """The names of what is committed, sorted."""

    def leftovers(self, claim: int) -> list[str]:
        """What runs with older claims were writing and removing, and what was being deleted: directories."""

    def names(self, path: str) -> list[str]:
        """What stands in a directory, sorted; nothing where it does not exist."""

    def read(self, path: str, most: int) -> bytes:
        """A small file. Raises OSError (EFBIG) where it has more than ``most`` bytes."""

    def write(self, path: str, data: bytes) -> None:
        """Put a small file there, in place of an older one, as one step, and durably."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing where there is none."""

    def size(self, path: str) -> int:
        """Bytes of a file."""

    def source(self, path: str) -> Source:
        """Open a file to read."""

    def sink(self, path: str) -> Sink:
        """Open a new file to write.

        Raises FileExistsError where there is one, FileNotFoundError without its directory.
        """

    def make(self, path: str) -> None:
        """Make a directory and what is above it."""

    def staging(self, step: int, generation: int, claim: int) -> str:
        """Where the files of a save go before it is published."""

    def publish(self, staging: str, name: str, manifest: bytes) -> str:
        """Make the save at ``staging`` a checkpoint, as one step, and durably; returns its name: ``name``, or another.

        Raises FileExistsError where there is one of that name, OSError (ENOENT, ESTALE) where a newer run has claimed
        the directory: then it will not be listed.
        """

    def discard(self, path: str) -> None:
        """Take a directory out of sight as one step, then delete it; nothing where there is none.

        What stands in the trash is deleted there.
        """

    def retire(self, name: str, retired: str) -> bool:
        """Move a checkpoint into the directory ``retired`` as one step, then delete it.

        False, and nothing is done, where another process reads it. Raises FileNotFoundError where ``retired`` is gone.
        """

    def claim(self, path: str, data: bytes) -> Hold | None:
        """Create a file that exists once and is held for as long as this process lives; None where it exists."""

    def held(self, path: str) -> bool:
        """Whether the process that claimed this file still lives."""

    def reading(self, name: str) -> Hold:
        """Keep a checkpoint from being discarded while it is read."""

    def is_read(self, name: str) -> bool:
        """Whether another process reads this checkpoint now."""
