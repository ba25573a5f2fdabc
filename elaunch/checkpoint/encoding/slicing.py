"""Read a slice of a tensor from the bytes of the whole one, in memory that does not grow with either."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from elaunch.checkpoint.encoding.raw import bytes_of
from elaunch.checkpoint.records.blocks import BlockFile

_BUFFER = 8 << 20
_WORTH_A_READ = 64 << 10  # bytes in one run; shorter runs are cut out of whole rows


@dataclass(frozen=True, slots=True)
class Stored:
    """A contiguous tensor of this type and shape, whose bytes begin at ``start`` of a file."""

    file: BlockFile
    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def read(self, offsets: tuple[int, ...], lengths: tuple[int, ...], target: torch.Tensor) -> None:
        """Fill ``target`` with the hypercube of ``lengths`` at ``offsets``. Raises as BlockFile.read_into() does."""
        if lengths[1:] == self.shape[1:]:
            first = offsets[0] if offsets else 0
            self._read_run(self.start + first * self._row, target)
        elif self._row > _BUFFER or self._run(lengths) >= _WORTH_A_READ:
            for number in range(lengths[0]):
                row = replace(self, start=self.start + (offsets[0] + number) * self._row, shape=self.shape[1:])
                row.read(offsets[1:], lengths[1:], target[number])
        else:
            self._cut_rows(offsets, lengths, target)

    @property
    def _row(self) -> int:
        """Bytes of one index of the first dimension."""
        width: int = self.dtype.itemsize
        return math.prod(self.shape[1:]) * width

    def _run(self, lengths: tuple[int, ...]) -> int:
        """Bytes that lie together in the file, in the slice."""
        size: int = self.dtype.itemsize
        for length, whole in zip(reversed(lengths), reversed(self.shape), strict=True):
            size *= length
            if length != whole:
                break
        return size

    def _read_run(self, at: int, target: torch.Tensor) -> None:
        """All of ``target`` lies in one run."""
        plain = target.device.type == "cpu" and target.dtype == self.dtype and target.layout == torch.strided
        if plain and target.is_contiguous() and not target.is_conj() and not target.is_neg():
            self.file.read_into(at, bytes_of(target))
            return
        step = max(_BUFFER // self._row, 1)
        for rows in target.split(step) if target.dim() else [target]:
            size = rows.numel() * self.dtype.itemsize
            rows.copy_(torch.frombuffer(self.file.read(at, size), dtype=self.dtype).view(rows.shape))
            at += size

    def _cut_rows(self, offsets: tuple[int, ...], lengths: tuple[int, ...], target: torch.Tensor) -> None:
        """Read whole rows, and keep of each what is wanted."""
        step = max(_BUFFER // self._row, 1)
        for first in range(0, lengths[0], step):
            number = min(step, lengths[0] - first)
            data = self.file.read(self.start + (offsets[0] + first) * self._row, number * self._row)
            rows = torch.frombuffer(data, dtype=self.dtype).view(number, *self.shape[1:])
            for dimension, (offset, length) in enumerate(zip(offsets[1:], lengths[1:], strict=True), start=1):
                rows = rows.narrow(dimension, offset, length)
            target[first : first + number].copy_(rows)
