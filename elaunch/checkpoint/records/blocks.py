"""Read any part of a file, each block checked against its sum on the way."""

from __future__ import annotations

from collections.abc import Callable

from elaunch.checkpoint.records import sums
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.storages.storage import Source
from elaunch.errors import DamagedCheckpointError


class BlockFile:
    """One open file of a checkpoint. ``known`` is what the manifest says of it, None where there is no manifest.

    With ``verify`` every block that a read touches is checked, once; else those that are to be read ``surely``. For
    one thread.
    """

    def __init__(self, source: Source, name: str, known: FileSum | None, verify: bool) -> None:
        if known is not None and source.size != known.size:
            raise DamagedCheckpointError(f"{name}: has {source.size} bytes, {known.size} were written")
        self.size = source.size
        self._source = source
        self._name = name
        self._known = known
        self._verify = verify
        self._checked = bytearray(sums.count(source.size))
        self._kept = -1
        self._block = memoryview(bytearray(0))

    def read_into(self, offset: int, view: memoryview, *, surely: bool = False) -> None:
        """Fill the view from ``offset`` on. Raises DamagedCheckpointError where a sum does not fit, and OSError."""
        self._check_place(offset, len(view))
        if self._known is None or not (self._verify or surely):
            self._source.read_into(offset, view)
            return
        end = offset + len(view)
        while offset < end:
            number, within = divmod(offset, sums.BLOCK)
            block_end = min((number + 1) * sums.BLOCK, self.size)
            piece = view[: min(end, block_end) - offset]
            if within == 0 and offset + len(piece) == block_end:
                self._source.read_into(offset, piece)
                self._check(number, piece)
            elif self._checked[number] and self._kept != number:
                self._source.read_into(offset, piece)
            else:
                piece[:] = self._kept_block(number, block_end)[within : within + len(piece)]
            view, offset = view[len(piece) :], offset + len(piece)

    def read(self, offset: int, length: int, *, surely: bool = False) -> bytearray:
        """The bytes from ``offset`` on."""
        self._check_place(offset, length)
        data = bytearray(length)
        self.read_into(offset, memoryview(data), surely=surely)
        return data

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Check every block that was not read before; ``progress`` is told how many bytes each had."""
        for number, (start, end) in enumerate(sums.spans(self.size)):
            if self._known is not None and not self._checked[number]:
                self._kept_block(number, end)
            if progress is not None:
                progress(end - start)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _check_place(self, offset: int, length: int) -> None:
        """What a file says of itself is not to be trusted."""
        if not 0 <= offset <= offset + length <= self.size:
            raise DamagedCheckpointError(
                f"{self._name}: has {self.size} bytes, and is said to hold some at {offset} to {offset + length}"
            )

    def _kept_block(self, number: int, end: int) -> memoryview:
        """The block of this number, read once as long as no other is asked for."""
        if self._kept != number:
            start = number * sums.BLOCK
            if len(self._block) < end - start:
                self._block = memoryview(bytearray(min(sums.BLOCK, self.size)))
            self._kept = -1
            self._source.read_into(start, self._block[: end - start])
            self._check(number, self._block[: end - start])
            self._kept = number
        return self._block

    def _check(self, number: int, block: memoryview) -> None:
        if self._known is not None and not self._checked[number]:
            if sums.digest(block) != self._known.block(number):
                start = number * sums.BLOCK
                raise DamagedCheckpointError(
                    f"{self._name}: damaged between bytes {start} and {start + len(block)}: their sum does not fit"
                )
            self._checked[number] = 1
