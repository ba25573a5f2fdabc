"""How torch.save wraps the bytes of one tensor, so that the bytes can be written without it.

DCP keeps each tensor as a file of torch.save of its own: a zip archive that stores the bytes uncompressed, aligned to
64 bytes. What stands before and after depends on the type and the shape only, so it is made once. Stock DCP reads what
comes out as what its own writer would have written.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.serialization import skip_data

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Envelope:
    """What stands before and after the ``size`` bytes of a tensor."""

    head: bytes
    size: int
    tail: bytes

    @property
    def length(self) -> int:
        """Bytes of all three together."""
        return len(self.head) + self.size + len(self.tail)


class _Recorder(io.RawIOBase):
    """A file that keeps what is written, and where a hole was left."""

    def __init__(self) -> None:
        self.parts = [io.BytesIO()]
        self.hole = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self.parts[-1].write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != io.SEEK_CUR or len(self.parts) != 1:
            raise io.UnsupportedOperation(f"seek({offset}, {whence}): one hole, for the one tensor, was expected")
        self.hole = offset
        self.parts.append(io.BytesIO())
        return self.tell()

    def tell(self) -> int:
        return sum(part.tell() for part in self.parts) + self.hole


@lru_cache(maxsize=4096)
def envelope(dtype: torch.dtype, shape: tuple[int, ...]) -> Envelope:
    """The envelope of a contiguous tensor of this type and shape."""
    like = torch.empty(shape, dtype=dtype)  # never touched: no memory is taken
    size = like.numel() * like.element_size()
    file = _Recorder()
    with skip_data():
        torch.save(like, file)
    if len(file.parts) == 1:  # nothing to skip: an empty tensor
        return Envelope(file.parts[0].getvalue(), 0, b"")
    if file.hole != size:
        raise RuntimeError(f"torch.save left {file.hole} bytes for a tensor of {size}")
    return Envelope(file.parts[0].getvalue(), size, file.parts[1].getvalue())
